"""Event loops that wake up for their timers although all other tasks in them wait for each other.

An asyncio task waits for a lock, a queue, other tasks. The tasks that could end the wait are known: for a lock, the tasks
in its `async with` block; for tasks, those tasks; for any other object, every task that can reach it. A heartbeat, a task
that keeps sleeping, cannot help if no other task awaits an object reachable from its variables. The tasks that can still
progress are the smallest set that holds every task waiting for a timer or the outside world, and every task whose wait a
task of the set may end; the remaining tasks are stuck.

A task that awaits a connection or a pipe waits for the process at the other end. If everything the loop watches leads
to processes of the job, these block it, unless a sleeper could send them something.

A task is *ready* once what it awaits is there: its loop runs it at the next turn. A loop that sleeps all the same was not
woken, as when another thread sets the result without `call_soon_threadsafe`.

A loop is called stuck only if all its tasks but such sleepers are, or if some of them wait for locks that they hold, or
that ended tasks have left locked, or for each other's ends, in a circle: nothing else in the loop can help these. A
task may legitimately wait for an event that nobody sets: a service runs forever that way. So that counts only if
another task waits for this one.

A loop rests if none of its tasks goes on by itself: each only reports, only polls, or waits for another task, a thread, a
child or a future. That it wakes up for those that report or poll is no progress: it waits for whoever is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from msgspec.structs import replace

from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.libraries import AWAITS
from mpmon.diagnosis.stacks.frames import bare, is_user
from mpmon.model import SENDS_TO_OTHERS, Frame, Task

LOCKS = frozenset({"lock", "semaphore"})
SIGNS = frozenset({"event", "condition", "barrier"})
"""Objects that a service may wait for as long as it runs."""

OBJECTS = frozenset({*LOCKS, *SIGNS, "queue get", "queue put", "queue join"})
ENDS_OF_TASKS = frozenset({"tasks", "any task"})
SLEEP, PROCESS, STREAM, ROOM, BODY, EXECUTOR, THREAD, REQUESTS, READY = (
    "sleep", "process", "stream", "room", "body", "executor", "thread", "requests", "ready",
)  # fmt: skip
CONNECTIONS = frozenset({STREAM, ROOM})
"""For something to read, and for room to write."""

WORDS = {
    "sleep": "sleeps", "lock": "awaits a lock", "semaphore": "awaits a semaphore", "event": "awaits an event",
    "condition": "awaits a condition", "barrier": "awaits a barrier", "queue get": "awaits an item of a queue",
    "queue put": "awaits room in a queue", "queue join": "awaits queue.join()", "process": "awaits the end of a child",
    "body": "awaits the rest of a request",
    "stream": "awaits a connection or a pipe", "room": "awaits room in a connection or a pipe",
    "executor": "awaits the end of its executor's threads",
    "tasks": "awaits other tasks", "any task": "awaits one of other tasks",
    "thread": "awaits the result of a thread", "requests": "stays until it is cancelled",
    "future": "awaits a future", "ready": "is about to continue", "running": "runs",
}  # fmt: skip
"""What a task does, by `Task.waits`."""

MOST_IN_CIRCLE = 3
"""Up to this many tasks that wait for each other are told with their places."""

MOST_NAMES = 4
"""Up to this many awaited tasks are named."""


def stuck(
    tasks: Sequence[Task], *, alone: bool, children: frozenset[int], partners: bool, untimed: bool
) -> tuple[Task, ...]:
    """The tasks of a loop that wait for each other, for nobody, for the end of these children, or for the job's
    processes at the other ends of its connections, if only sleepers that could not help are left beside them; else
    none.

    Args:
        tasks: All tasks of the loop.
        alone: Nothing outside the loop could act in it: no thread, no connection, no signal handler.
        children: Processes of the job whose end a task may wait for.
        partners: All its connections lead to processes of the job.
        untimed: It has no timer, whatever its class, and no signal handler.
    """
    if untimed:
        tasks = [replace(row, callbacks=row.callbacks or 0) for row in tasks]
    found = _all_of_them(tasks, alone=alone, children=children, partners=partners) or deadlocked(tasks)
    return () if any(_may_cancel(row, found) for row in tasks if row.waits == SLEEP) else found


def _all_of_them(tasks: Sequence[Task], *, alone: bool, children: frozenset[int], partners: bool) -> tuple[Task, ...]:
    left = {row.object: row for row in tasks if row.waits != SLEEP}
    sleepers = [row for row in tasks if row.waits == SLEEP]
    if not left or not all(_may_be_stuck(row, children, partners=partners) for row in left.values()):
        return ()
    for row in left.values():
        if _is_helped(row, left, sleepers, alone=alone):
            # Either all of them are stuck, or none is reported.
            return ()
    awaited = {name for row in left.values() for name in row.tasks}
    if any(row.waits in SIGNS and row.object not in awaited for row in left.values()):
        return ()
    return tuple(left.values())


def deadlocked(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """The tasks of which each waits for a lock that one of them holds, or nobody any more, or for the end of some of them.

    No time limit is involved: neither of their own, nor of a task that awaits one of them, or a task that does, and would
    cancel it.
    """
    limited = {row.object for row in tasks if row.timed}
    awaits = {row.object: row.tasks for row in tasks}
    while more := {name for one in limited for name in awaits.get(one, ())} - limited:
        limited |= more
    left = {row.object: row for row in tasks if row.object not in limited}
    lost = {row.object for row in forsaken(tasks)}
    while kept := {name: row for name, row in left.items() if name in lost or _needs_these(row, left)}:
        if len(kept) == len(left):
            return tuple(kept.values())
        left = kept
    return ()


def forsaken(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """The tasks that wait for a lock whose holder has ended without releasing it: no task has it, and none that may still go
    on could have taken it without a block, or be about to release it.
    """
    waiting = [row for row in tasks if row.waits == "lock" and row.callbacks == 0]
    return tuple(row for row in waiting if not any(_may_release(other, row) for other in tasks))


def _may_release(other: Task, row: Task) -> bool:
    if row.waits_on in other.holds:
        return True
    if other.waits_on == row.waits_on:
        return False
    if other.waits == SLEEP or other.timed:
        return _could_reach(other, row)
    if other.waits in (*ENDS_OF_TASKS, REQUESTS):
        # Who waits for the ends of others releases it later than these.
        return False
    # A library's own task that waits for its next piece of work has finished the last one.
    return user_frame(other) is not None or other.waits not in (*SIGNS, "queue get")


def resting(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """The tasks of a loop but those that only report, if none of them goes on by itself: each polls, or waits for another one,
    for a thread, for the end of a process or of one of these, and no timer does anything else.
    """
    rows = tuple(row for row in tasks if not row.only_reports)
    return rows if all(polls(row) or _needs_others(row) for row in rows) else ()


def polls(row: Task) -> bool:
    """The task only polls, in a loop of the job's own code, and no timer does anything else."""
    return row.polls_for is not None and row.callbacks == 0


def _needs_others(row: Task) -> bool:
    waits = row.waits in OBJECTS or row.waits in ENDS_OF_TASKS or row.waits in (THREAD, PROCESS, "future")
    return waits and not row.timed and row.callbacks == 0


def in_circle(tasks: Sequence[Task]) -> str:
    """What the tasks that wait for each other's locks do, else for each other's ends: the first ones."""
    rows = [row for row in tasks if row.waits == "lock"] or tasks
    return several([f"{row.name or 'a task'} {does(row, tasks)}{place_of(row)}" for row in rows[:MOST_IN_CIRCLE]])


def _needs_these(row: Task, left: dict[str, Task]) -> bool:
    if row.waits == "lock":
        return any(row.waits_on in other.holds for other in left.values())
    among = [name in left for name in row.tasks]
    return any(among) if row.waits == "tasks" else row.waits == "any task" and bool(among) and all(among)


def _may_be_stuck(row: Task, children: frozenset[int], *, partners: bool) -> bool:
    if row.timed or row.waits is None:
        return False
    if row.waits in CONNECTIONS:
        return partners
    return row.waits in OBJECTS or row.waits in ENDS_OF_TASKS or (row.waits == PROCESS and row.child in children)


def _is_helped(row: Task, left: dict[str, Task], sleepers: Sequence[Task], *, alone: bool) -> bool:
    """A task or event outside `left` may end the wait."""
    if row.waits == PROCESS:
        # One that sleeps with a connection at hand may be a slow reader of what the child writes.
        return any(_could_send(sleeper) for sleeper in sleepers)
    if row.waits in CONNECTIONS:
        return row.callbacks != 0 or any(_could_send(sleeper) for sleeper in sleepers)
    if row.waits in ENDS_OF_TASKS:
        # When several have to end, it is enough that one never does.
        others = [name not in left for name in row.tasks]
        return not others or (all(others) if row.waits == "tasks" else any(others))
    holders = [other for other in (*left.values(), *sleepers) if row.waits_on in other.holds]
    if row.waits in LOCKS and holders:
        return any(other.object not in left for other in holders)
    return not alone or any(_could_reach(sleeper, row) for sleeper in sleepers) or row.callbacks != 0


def _could_reach(sleeper: Task, row: Task) -> bool:
    return sleeper.reaches is None or row.waits_on in sleeper.reaches or row.object in sleeper.reaches


def _may_cancel(sleeper: Task, others: Sequence[Task]) -> bool:
    """A sleeper of the user's, such as one that looks for deadlocks; a library's own task cancels none of theirs."""
    far = sleeper.reaches
    return user_frame(sleeper) is not None and (far is None or any(row.object in far for row in others))


def _could_send(sleeper: Task) -> bool:
    return sleeper.reaches is None or SENDS_TO_OTHERS in sleeper.reaches


def may_hear(row: Task) -> bool:
    """A task may await something that another process sends."""
    return row.waits in (None, STREAM, ROOM, "future", PROCESS)


def may_answer(row: Task) -> bool:
    """A task may send an answer even if no thread of its process moves. A library's own task only looks after others."""
    if row.waits in (THREAD, REQUESTS, READY) or user_frame(row) is None:
        return row.waits == READY
    return row.waits != SLEEP or _could_send(row)


def known_as_awaiting(row: Task) -> Task:
    """The task with what it waits for by the function of a library that it is in, below all code of the job."""
    for frame in takewhile(lambda frame: not is_user(frame.file), row.frames):
        for known in _BY_FUNCTION.get(bare(frame.function), ()):
            if frame.file.endswith(known.file):
                return replace(row, waits=known.kind)
    return row


_BY_FUNCTION = {name: [row for row in AWAITS if name in row.functions] for known in AWAITS for name in known.functions}


def held_up(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """The tasks of a server that work on requests, if all of these wait for their own clients: for the rest of what they send, or
    until they read; none otherwise. Tasks of a library alone only look after others, and no signal makes a client go on;
    of a loop that keeps its timers in C, as uvloop's, none is assumed that would.
    """
    busy = tuple(row for row in tasks if user_frame(row) and row.waits != REQUESTS)
    awaits = all(row.waits in (BODY, ROOM) and not row.timed for row in busy)
    return busy if awaits and not any(map(has_timers, busy)) else ()


def has_timers(row: Task) -> bool:
    """The loop of a task has timers that may do anything, apart from what a signal does."""
    return row.handlers >= 0 and row.callbacks != row.handlers


def first(tasks: Sequence[Task]) -> Task | None:
    """The stuck task to look at: one that waits for another process, else for a lock in a circle of them, else one that another
    one awaits, or polls for, else one that does not just wait for others to end.
    """
    outside = [row for row in tasks if row.waits in CONNECTIONS or row.waits == PROCESS]
    circle = [row for row in deadlocked(tasks) if row.waits == "lock"]
    ends = [row for row in tasks if row.waits not in ENDS_OF_TASKS]
    asked = {
        name for row in tasks for name in (*row.tasks, *((row.reaches or ()) if row.polls_for is not None else ()))
    }
    awaited = [row for row in ends if row.object in asked]
    # Who waits for work waits for others; and whoever was begun last was to do something for those before it.
    busy = [row for row in ends if row.waits != "queue get"] or ends
    return next(iter(outside or circle or awaited or busy[::-1] or tasks), None)


def user_frame(row: Task) -> Frame | None:
    """The innermost line of the user's code among a task's calls."""
    return next((frame for frame in row.frames if is_user(frame.file)), None)


def does(row: Task, tasks: Sequence[Task]) -> str:
    """What a task does, among the tasks of its process: `awaits a lock (held by Task-4)`."""
    words = WORDS.get(row.waits or "", "awaits something that cannot be read")
    holders = [other.name for other in tasks if row.waits_on and row.waits_on in other.holds]
    ends = [other.name for other in tasks if other.object in row.tasks]
    if holders:
        return f"{words} (held by {several(holders)})"
    if ends:
        return f"{words}: {several(ends) if len(ends) <= MOST_NAMES else f'{len(ends)} of them'}"
    return f"{words}, pid {row.child}" if row.child is not None else words


def place_of(row: Task) -> str:
    """The line of a task to look at, ` at job.py:21 in move()`; empty if it has none."""
    frame = user_frame(row) or next(iter(row.frames), None)
    return f" at {frame.file.rpartition('/')[2]}:{frame.line} in {frame.function}()" if frame else ""


def lines(tasks: Sequence[Task], tid: int, most: int) -> list[str]:
    """What the tasks of one thread's loop do, one per line, sleeping ones last; at most `most`, then how many more
    there are.
    """
    own = sorted((row for row in tasks if row.tid == tid), key=lambda row: row.waits == SLEEP)
    told = [f"{row.name or 'a task'} {does(row, tasks)}{place_of(row)}" for row in own[:most]]
    return [*told, *([f"… {len(own) - most} more"] if len(own) > most else [])]
