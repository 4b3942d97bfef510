"""Those of a stuck set that have ended."""

from __future__ import annotations

import msgspec

from mpmon.diagnosis.edges.dead import crashed_relatives
from mpmon.diagnosis.edges.numbered import forgotten_child
from mpmon.diagnosis.edges.queue_ledgers import put_by_ended
from mpmon.diagnosis.edges.replaced import replaced
from mpmon.diagnosis.graph import Absent, Ending
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.roles import POOL_WORKERS
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.stuck.stuck_set import StuckSet, crashed


def those_gone(stuck: StuckSet) -> list[int]:
    """The exited processes at the end of the chain: the crashed ones, or the ones that can have put the items received.

    If several exited without error, each may have finished its work: then none is returned, and the waiter is responsible.
    """
    ended = put_by_ended(stuck.job, stuck.root) if stuck.root else None
    pids = [gone.pid for gone in stuck.gone]
    pids = [pid for pid in pids if ended and pid in ended.pids] or pids
    return pids if len(pids) == 1 or any(map(crashed, stuck.gone)) else []


class LostHolder(msgspec.Struct, frozen=True):
    """The process that ended while holding a lock between processes."""

    pids: tuple[int, ...] = ()
    """Empty if unknown."""
    pool: bool = False
    """Its pool has replaced it, which reveals its pid."""
    family: bool = False
    """The numbers in its siblings' names reveal its pid."""
    killed: bool = False
    """It is a relative that was killed, of which it is not known what it held."""


def lost_holder(stuck: StuckSet) -> LostHolder | None:
    """The last holder of a lock between processes that no living process holds; `None` for any other chain."""
    nobody, root, job = stuck.nobody, stuck.root, stuck.job
    if nobody is None or nobody.reason is not Absent.HOLDER_ENDED or root is None:
        return None
    if job.block_wanted(root):
        return LostHolder(nobody.blame, killed=True)
    of_manager = job.wait_state(root).kind is Wait.OTHER_CLIENTS
    if not of_manager and not any(item.kind == "semaphore" for item in job.waits_on(root)):
        return None
    own = job.read_wait(root).kind is Wait.JOIN_PROCESS
    told = tuple(pid for pid in nobody.blame if pid not in {key[0] for key in stuck.at_end})
    if told and not own:
        seen = {*job.processes, *job.remembered, *(row.pid for row in job.snapshot.exits)}
        return LostHolder(told, family=seen.isdisjoint(told))
    siblings = job.clients.get(root[0] if own else job.role(root[0]).parent or 0, ())
    pool = [pid for pid in siblings if job.role(pid).kind in POOL_WORKERS]
    if found := replaced(job, pool):
        return LostHolder(found.dead, pool=True)
    before = None if pool or own else forgotten_child(job, root[0])
    return LostHolder((before,), family=True) if before else LostHolder()


def polled_for(stuck: StuckSet) -> list[int]:
    """Crashed relatives of a polling thread that may have had to provide what it polls for."""
    polls = stuck.ending is Ending.LEAF and stuck.root and stuck.wait_state().kind in (Wait.SLEEP, Wait.POLL)
    return (
        crashed_relatives(stuck.job, stuck.root[0]) if polls and stuck.root and stuck.motion() is Motion.POLLING else []
    )


def lost_producers(stuck: StuckSet) -> list[int]:
    """For members that wait for an item: crashed relatives, or the ended process that had put all items so far."""
    # Consider the cycle itself only: a thread that merely waits for the cycle may lack something else.
    among = stuck.among
    readers = [key for key in among if stuck.wait_state(key).kind is Wait.QUEUE_GET]
    if len(readers) == len(stuck.closed.core):
        # All wait for each other's items: the end of another process need not matter.
        return []
    for key in readers:
        ended = put_by_ended(stuck.job, key)
        if found := crashed_relatives(stuck.job, key[0]) or list(ended.one if ended else ()):
            return found
    return []
