"""Waits that cross: each side waits for what the other will not do, though no lock is in a circle."""

from __future__ import annotations

from mpmon.diagnosis.graph import Ending
from mpmon.diagnosis.ipc.queues import is_feeder
from mpmon.diagnosis.responsibility.members import waits_for_room
from mpmon.diagnosis.stacks.waits import ENDS_OF_PROCESSES, LOCKS, MAY_BE_ASKED, READS, Wait, in_barrier
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.stuck_set import StuckSet

_SIGNS = frozenset({Wait.PROCESS_EVENT, Wait.CONDITION})
"""Waits for an event; a thread that only waits for others to end sets such an event when all is over."""


def kept_until_end(stuck: StuckSet) -> tuple[ThreadKey, ThreadKey, ThreadKey] | None:
    """A cycle with one lock, whose holder waits for an event from a thread that waits for the others to end: the waiter
    for the lock, its holder, the thread that waits for the end.
    """
    if stuck.ending is not Ending.CYCLE:
        return None
    waiters = [key for key in stuck.at_end if stuck.wait_state(key).kind in LOCKS]
    holders = [key for key in stuck.at_end if stuck.wait_state(key).kind in _SIGNS]
    enders = [key for key in stuck.at_end if stuck.wait_state(key).kind in ENDS_OF_PROCESSES]
    if not enders or len(waiters) != 1 or len(holders) != 1 or len(enders) + 2 != len(stuck.at_end):
        return None
    edge = stuck.graph.node(waiters[0]).edge
    held = edge is not None and edge.holder_known and holders[0] in edge.targets
    return (waiters[0], holders[0], enders[0]) if held else None


def undrained(stuck: StuckSet) -> tuple[ThreadKey, ThreadKey] | None:
    """The feeder thread of a queue that cannot write, and the thread that waits for its process to end instead of
    reading.
    """
    for feeder in stuck.members_in(Wait.PIPE_WRITE):
        stack = stuck.job.stacks.get(feeder)
        if not is_feeder(stack):
            continue
        behind = [key[0] for key in stuck.members_in(*LOCKS) if _is_behind(stuck, key, feeder)]
        joiner = next(
            (
                key
                for key in stuck.closed.members
                if any(_waits_for_end(stuck, key, pid) for pid in (feeder[0], *behind))
            ),
            None,
        )
        if joiner and not stuck.could_be_served(feeder, joiner):
            return feeder, joiner
    return None


def _is_behind(stuck: StuckSet, key: ThreadKey, feeder: ThreadKey) -> bool:
    """The feeder of another process, which waits for the lock that this one has while it writes into the same queue."""
    return is_feeder(stuck.job.stacks.get(key)) and feeder in stuck.targets(key)


def unread(stuck: StuckSet) -> tuple[ThreadKey, ThreadKey] | None:
    """A thread that cannot write, and the one that could read what it writes, but waits for it to end, or for something that
    depends on it; `None` for the feeder of a queue.
    """
    if undrained(stuck):
        return None
    writers = (key for key in stuck.closed.members if _writes(stuck, key))
    for writer in writers:
        readers = (key for key in stuck.targets(writer) if isinstance(key, tuple) and _waits_elsewhere(stuck, key))
        reader = next(readers, None)
        if reader and not stuck.could_be_served(writer, reader) and not _leads_on(stuck, writer, reader):
            return writer, reader
    return None


def _leads_on(stuck: StuckSet, writer: ThreadKey, reader: ThreadKey) -> bool:
    """The chain does not end at the reader: it waits for one at whose end the writer plays no part, or for one that nobody is
    known to help.
    """
    if stuck.root in (None, writer, reader):
        return False
    alone = stuck.ending is Ending.LEAF and writer not in stuck.graph.reached(reader)
    return alone or stuck.ending is Ending.DESERTED


def _writes(stuck: StuckSet, key: ThreadKey) -> bool:
    """Into a pipe or a socket; what is put into a queue waits for a slot."""
    return waits_for_room(stuck, key) and stuck.wait_state(key).kind is not Wait.QUEUE_PUT


def _waits_elsewhere(stuck: StuckSet, key: ThreadKey) -> bool:
    """It waits for the writer to end or for something else from it, or from others that in turn wait for the writer."""
    if key not in stuck.closed.members or _writes(stuck, key):
        return False
    # An idle event loop cannot be watching the pipe, which has data to read.
    return stuck.wait_state(key).kind in ENDS_OF_PROCESSES | READS | {Wait.SOCKET, Wait.EVENT_LOOP}


def _waits_for_end(stuck: StuckSet, key: ThreadKey, pid: int) -> bool:
    """The thread waits for a process to end; any wait for a process whose interpreter is exiting counts as such."""
    ends = stuck.wait_state(key).kind in ENDS_OF_PROCESSES or stuck.wait_state((pid, pid)).kind is Wait.EXIT
    return ends and key[0] != pid and (pid, pid) in stuck.targets(key)


def forsaken(stuck: StuckSet) -> list[ThreadKey]:
    """Threads of one process that wait in the same call, with no other thread left to act: none of them can help another."""
    root_blockers = list(stuck.at_end)
    kinds = {stuck.wait_state(key).kind for key in root_blockers}
    stacks = [stuck.job.stacks.get(key) for key in root_blockers]
    calls = {tuple((row.function, row.file, row.line) for row in stack.frames) if stack else () for stack in stacks}
    alike = (
        stuck.ending is Ending.CYCLE
        and len(root_blockers) > 1
        and len({key[0] for key in root_blockers}) == len(kinds) == len(calls) == 1
    )
    return root_blockers if alike and kinds <= MAY_BE_ASKED and not in_barrier(stacks[0]) else []
