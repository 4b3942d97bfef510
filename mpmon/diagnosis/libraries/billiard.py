"""billiard, which Celery uses: multiprocessing with its own start method and its own pool."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Context, Library, Wait, WorkerRow, functions, waits

LIBRARY = Library(
    copies=(("billiard/", "multiprocessing/"),),
    waits=(waits(Wait.POOL_TASK, "multiprocessing/pool.py", "_recv", "a task"),),
    runs=((Context.POOL_WORKER, functions("multiprocessing/pool.py", "workloop")),),
    workers=(WorkerRow("pool worker", functions("multiprocessing/pool.py", "workloop")),),
)
