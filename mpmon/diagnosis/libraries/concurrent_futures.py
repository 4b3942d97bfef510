"""concurrent.futures: executors of processes and of threads."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Context, Library, Wait, WorkerRow, functions, polls, waits

LIBRARY = Library(
    waits=(
        waits(Wait.POOL_TASK, "concurrent/futures/process.py", "_process_worker", "work", called="get"),
        waits(Wait.SERVICE, "concurrent/futures/process.py", "run wait_result_broken_or_wakeup", "executor results"),
        waits(Wait.POOL_TASK, "concurrent/futures/thread.py", "_worker", "work", called=""),
        waits(
            Wait.FUTURE_RESULT, "concurrent/futures/_base.py", "result exception wait as_completed result_iterator",
            "the result of a task",
        ),
        waits(Wait.JOIN_THREAD, "concurrent/futures/thread.py", "shutdown _python_exit", "executor threads to end"),
        waits(Wait.JOIN_PROCESS, "concurrent/futures/process.py", "shutdown _python_exit", "executor to end"),
    ),
    polls=(polls(Wait.FUTURE_RESULT, "done", "the result of a task"),),
    runs=(
        (Context.POOL_WORKER, functions("concurrent/futures/process.py", "_process_worker")),
        (Context.EXECUTOR_THREAD, functions("concurrent/futures/thread.py", "_worker run")),
    ),
    workers=(WorkerRow("pool worker", functions("concurrent/futures/process.py", "_process_worker")),),
)  # fmt: skip
