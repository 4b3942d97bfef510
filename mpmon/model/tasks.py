"""Tasks of event loops."""

from __future__ import annotations

from mpmon.model.columns import Name, Pid, Row
from mpmon.model.stacks import Frame

SENDS_TO_OTHERS = "sends"
"""Of `Task.reaches`; in recordings made before, nothing says so."""


class Task(Row, frozen=True, kw_only=True):
    """A task of an event loop of asyncio that is not done: in which coroutines it is and what it awaits, as the interpreter says
    (`mpmon.probes.interpreter.tasks`).
    """

    pid: Pid
    tid: Pid
    """The thread that runs its loop."""
    object: Name
    """`task:PID:ADDRESS`."""
    name: str = ""
    frames: tuple[Frame, ...] = ()
    """Its coroutines, innermost first; of one that runs the outermost ones, for the others lie in the stack of the thread."""
    waits: str | None = None
    """`sleep`, `lock`, `semaphore`, `condition`, `event`, `barrier`, `queue get`, `queue put`, `queue join`, `process` (its
    end), `stream` (what comes over a connection or a pipe, or room there), `executor` (the end of the threads of the loop's
    executor), `thread` (the result of a thread of its process), `requests` (of a server's clients), `tasks` (the end of all of
    them), `any task` (that of one), `future` (one of which nothing else is known), `ready` (it goes on at the loop's next
    turn), `running`; `None` where that cannot be read.
    """
    waits_on: Name | None = None
    """`asyncio:PID:ADDRESS` of the lock, queue, event or future."""
    tasks: tuple[Name, ...] = ()
    """The unfinished tasks that it waits for: those of `gather`, `wait`, `wait_for` or a `TaskGroup` that are not done."""
    child: Pid | None = None
    """Of `process`: the child."""
    timed: bool = False
    """Its wait has a time limit."""
    holds: tuple[Name, ...] = ()
    """The locks and semaphores of asyncio of which it is in an `async with` block."""
    reaches: tuple[Name, ...] | None = None
    """Of one that sleeps: what other tasks await of all that its variables and the functions it knows lead to, which of these
    tasks, and `SENDS_TO_OTHERS` where there is a connection or an open file among it; `None` where that is not known.
    """
    polls_for: tuple[str, ...] | None = None
    """Of one that sleeps, or waits with a time limit, in a loop of the job's own code that only polls: as `Stack.polls_for`."""
    only_reports: bool = False
    """It sleeps in a loop that is never left, and does nothing but look, count and log."""
    callbacks: int | None = None
    """Handlers of signals of its loop, and timers that are neither a sleep nor a time limit: what they call may do anything."""
    handlers: int = 0
    """Of these, the handlers of signals; -1 where the loop does not keep them in Python objects, as uvloop's."""
