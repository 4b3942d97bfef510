"""Locks and semaphores that threads hold or wait for, and what they join."""

from __future__ import annotations

from mpmon.model.columns import Name, Pid, Row


class SemaphoreUse(Row, frozen=True, kw_only=True):
    """One process's part in a multiprocessing lock, semaphore or queue: `SemLockObject` of CPython's
    Modules/_multiprocessing/semaphore.c, found in the process's memory.
    """

    pid: Pid
    object: Name
    """`semaphore:DEV:INODE:OFFSET`."""
    count: int
    """Acquired minus released by this process: 1 for the holder of a lock; for the bound of a queue, puts minus gets."""
    max_value: int
    """1 for a lock; the largest int for a plain semaphore."""
    recursive: bool = False
    thread_ident: int | None = None
    """`threading.get_ident()` of the thread that acquired last."""


BLOCK, PERMITS = "block:", "permits:"
"""Begin the ids of the objects of `with` blocks, and of semaphores of `threading`."""


class LockUse(Row, frozen=True, kw_only=True):
    """One thread holds, or waits for, a lock of its own process (`threading.Lock`, `RLock`, the lock of a `Condition`), as
    CPython's frames and locks say; or one that programs make themselves, of a folder, a file or a key of a database, and for
    which others poll: `mpmon.probes.interpreter`.
    """

    pid: Pid
    tid: Pid
    object: Name
    """`futex:PID:ADDRESS`, the word its waiters sleep on; from Python 3.14 on `lock:PID:ADDRESS`. `block:DIGEST` for a lock of a
    program's own making, with a digest of its class and name; `permits:PID:ADDRESS` for a semaphore.
    """
    kind: str
    """`Lock`, `RLock`, or `Condition` for the lock inside of one; the class, or the function that makes it, of another one."""
    holds: bool
    """False if it waits for it."""
    function: str | None = None
    """The function whose `with` block holds it or waits for it; `None` where the lock itself names its owner."""
    depth: int | None = None
    """The number of frames outside of that one."""
    owner_missing: bool = False
    """It waits, and the lock names an owner that is no thread of this process: it was locked before a fork, or by a thread
    that has ended.
    """
    exact: bool = True
    """False when the thread ran while it was read, or may have given the lock back inside of its `with` block."""
    asleep: bool = False
    """It sleeps on its way into the block, instead of asking again and again: what wakes it need not be the end of a block."""
    alone: bool = False
    """It waits for a permit of a semaphore that each call takes and gives back itself; and as far as is seen, no other thread is
    in a call that gives any back, but those that hold one.
    """

    @property
    def of_block(self) -> bool:
        """It is a lock of a program's own making."""
        return self.object.startswith(BLOCK)

    @property
    def of_permits(self) -> bool:
        """It is a semaphore."""
        return self.object.startswith(PERMITS)


class JoinTarget(Row, frozen=True, kw_only=True):
    """What a waiting call refers to: the joined thread, the future whose result is requested, or possibly a torch `Work`; else
    that the thread is in a task of an executor in whose queue others wait.
    """

    pid: Pid
    tid: Pid
    kind: str
    """`thread`, `future`, or `work`: the code calls a method of the name by which one waits for a collective. `task`: all threads
    of the executor are in tasks, and others wait in its queue.
    """
    by_tid: Pid | None = None
    """The thread that has to end, or that runs the future's task, or in whose event loop it has to be completed; `None` where no
    thread of this process does.
    """
    queued_for: tuple[Pid, ...] = ()
    """Of a future whose task still waits in the queue of an executor, or that gets its result from such a one through
    coroutines: the threads of the executor, which alone can take it. Of a `task` as well.
    """
    members: tuple[int, ...] = ()
    """Of `work` by a function of torch's own: the ranks of its process group, by their numbers in the job; empty where that
    is not known.
    """
    group: str = ""
    """The name of that group, which all its ranks know it by; empty where that is not known."""
