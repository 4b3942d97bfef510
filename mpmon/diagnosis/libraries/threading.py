"""threading and queue: what threads of one process share."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library, Wait, polls, waits

LIBRARY = Library(
    waits=(
        waits(Wait.EXIT, "/threading.py", "_shutdown", "threads to end"),
        waits(Wait.JOIN_THREAD, "/threading.py", "join _wait_for_tstate_lock", "a thread to end"),
        # Cancelling a timer sets the event that its thread waits for.
        waits(Wait.TIMER, "/threading.py", "run", "a timer to fire", called="wait"),
        waits(Wait.THREAD_QUEUE, "/queue.py", "get", "an item from a thread queue"),
        waits(Wait.THREAD_QUEUE, "/queue.py", "put", "room in a thread queue"),
        waits(Wait.THREAD_QUEUE, "/queue.py", "join", "all tasks of a thread queue to be done"),
        waits(Wait.CONDITION, "/threading.py", "wait", "the others at a barrier", called="_wait"),
        # A condition's own lock, and that of the queue or event that is made of the condition.
        waits(Wait.FUTEX, "/threading.py", "__enter__", "a lock"),
        waits(Wait.CONDITION, "/threading.py", "acquire", "a permit of a threading semaphore"),
        waits(Wait.CONDITION, "/threading.py", "wait wait_for _wait _enter", "a threading event"),
    ),
    polls=(polls(Wait.CONDITION, "is_set", "an event"),),
)  # fmt: skip
