"""Ray: its workers, which run tasks and methods of actors."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library, Wait, waits

LIBRARY = Library(waits=(waits(Wait.POOL_TASK, "ray/_private/worker.py", "main_loop", "a task", called=""),))
