"""What each frame of a stack holds and waits for, as jstack prints it: `holding Lock 0x7f…`, `waiting to lock 0x7f…`.

Locks within a process, and those that programs make themselves, come with the frame whose `with` block holds them. A lock
that names its owner itself (an RLock, or a lock between processes with its ledger) belongs to the thread, not to one of its
frames.
"""

from __future__ import annotations

from mpmon.diagnosis.stacks.frames import bare
from mpmon.model import LockUse, Snapshot, Stack


def by_frame(snapshot: Snapshot, stack: Stack) -> dict[int, tuple[str, ...]]:
    """Notes on frames, by their place in `stack.frames`."""
    found: dict[int, tuple[str, ...]] = {}
    for use in _of_thread(snapshot, stack):
        place = _place(stack, use)
        if place is not None:
            found[place] = (*found.get(place, ()), _words(snapshot, use))
    return found


def by_thread(snapshot: Snapshot, stack: Stack) -> tuple[str, ...]:
    """Notes on the thread as a whole."""
    uses = [use for use in _of_thread(snapshot, stack) if _place(stack, use) is None]
    between = [
        f"holding {row.object}, by its ledger" for row in snapshot.semaphores
        if row.pid == stack.pid and row.count > 0 and row.max_value == 1 and _is_of(stack, row.thread_ident)
    ]  # fmt: skip
    return (*(_words(snapshot, use) for use in uses), *between)


def _of_thread(snapshot: Snapshot, stack: Stack) -> list[LockUse]:
    return [use for use in snapshot.locks if use.tid == stack.tid and use.pid == stack.pid and not use.asleep]


def _is_of(stack: Stack, ident: int | None) -> bool:
    return ident == stack.ident if ident is not None and stack.ident is not None else stack.pid == stack.tid


def _place(stack: Stack, use: LockUse) -> int | None:
    """The frame of a lock: by its depth, if the stack, sampled at another moment, has that function there."""
    if use.depth is None or use.function is None:
        return None
    place = len(stack.frames) - 1 - use.depth
    fits = 0 <= place < len(stack.frames) and bare(stack.frames[place].function) == use.function
    named = (at for at, frame in enumerate(stack.frames) if bare(frame.function) == use.function)
    return place if fits else next(named, None)


def _words(snapshot: Snapshot, use: LockUse) -> str:
    lock = f"{use.kind} {use.object.rpartition(':')[2]}"
    if use.of_permits:
        return f"in a with block of {lock}" if use.holds else f"waiting for a permit of {lock}"
    if use.holds:
        return f"holding {lock}" if use.exact or use.of_block else f"probably holding {lock}"
    holders = [row for row in snapshot.locks if row.holds and row.object == use.object]
    if not holders:
        return f"waiting to lock {lock}" + (", locked before the fork" if use.owner_missing else "")
    return f"waiting to lock {lock}, held by {_thread(snapshot, holders[0], use)}"


def _thread(snapshot: Snapshot, holder: LockUse, waiter: LockUse) -> str:
    if holder.pid != waiter.pid:
        return f"pid {holder.pid}"
    if holder.tid == waiter.tid:
        return "this very thread"
    named = (row.thread_name for row in snapshot.stacks if (row.pid, row.tid) == (holder.pid, holder.tid))
    return f"thread {next(named, '') or holder.tid}"
