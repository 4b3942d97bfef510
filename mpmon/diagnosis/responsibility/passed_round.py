"""Who is responsible for items, permits and locks that are passed round."""

from __future__ import annotations

from mpmon.diagnosis.edges.queue_ledgers import owing
from mpmon.diagnosis.graph import Ending
from mpmon.diagnosis.responsibility.members import helpers_of, pids_asked, waits_for_room
from mpmon.diagnosis.responsibility.servers import asked_by_all
from mpmon.diagnosis.responsibility.streams import kept_ends
from mpmon.diagnosis.stacks.waits import ENDS_OF_PROCESSES, LOCKS, Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.manager_calls import client_calls
from mpmon.diagnosis.stuck.stuck_set import StuckSet
from mpmon.diagnosis.suspects import stands_at


def owing_items(stuck: StuckSet) -> list[ThreadKey]:
    """Of members that all wait for each other's items: the one that by the ledgers owes an item, else the server that all the
    others ask, else all.
    """
    readers = stuck.members_in(Wait.QUEUE_GET)
    if len(readers) < max(2, len(stuck.closed.members)):
        return []
    if owes := owing(stuck.job, [pid for pid, _ in readers]):
        return [key for key in readers if key[0] == owes.pid]
    return asked_by_all(stuck) or readers


def kept_permits(stuck: StuckSet) -> dict[ThreadKey, int]:
    """Of members that pass round permits of several semaphores, such as the free and the filled slots of a ring buffer: the
    ones that took more permits than they returned, with the surplus; empty unless the others returned all they took.
    """
    job = stuck.job
    waited = {key: [item.id for item in job.waits_on(key) if item.kind == "semaphore"] for key in stuck.at_end}
    names = {name for found in waited.values() for name in found}
    if stuck.ending is not Ending.CYCLE or len(names) < 2 or not all(waited.values()):
        return {}
    kept = {
        key: sum(use.count for name in names for use in job.uses.get(name, ()) if use.pid == key[0]) for key in waited
    }
    keeping = {key: count for key, count in kept.items() if count > 0}
    return keeping if min(kept.values()) >= 0 and len(keeping) < len(kept) else {}


def keepers_of_permits(stuck: StuckSet) -> list[ThreadKey]:
    """The members that took more permits than they returned, of several that pass them round."""
    return list(kept_permits(stuck))


def whose_end_is_awaited(stuck: StuckSet) -> list[ThreadKey]:
    """The members that wait for items, if every possible producer waits for them to end, and uses its end of the pipe; of a
    server and its clients, the server; the producer itself, if its script has ended.
    """
    if over := ended_scripts(stuck):
        return over
    if kept_ends(stuck):
        return []
    readers, enders = stuck.members_in(Wait.QUEUE_GET), stuck.members_in(*ENDS_OF_PROCESSES)
    served = stuck.members_in(Wait.OTHER_CLIENTS)
    whole = len(readers) + len(enders) + len(served) == len(stuck.closed.members)
    if not whole or not readers or not enders:
        return []
    places = {stands_at(stuck.job, key) for key in readers if any(key in stuck.targets(end) for end in enders)}
    # Who is not awaited, and waits elsewhere, gets what these would send.
    return asked_by_all(stuck) or [key for key in readers if stands_at(stuck.job, key) in places] or readers


def ended_scripts(stuck: StuckSet) -> list[ThreadKey]:
    """In a cycle: processes whose script has ended, and which wait for others to end; not for threads of their own, which send
    what the script has put.
    """
    over = [key for key in stuck.at_end if stuck.wait_state(key).kind is Wait.EXIT]
    return over if stuck.ending is Ending.CYCLE and all(key[0] not in pids_asked(stuck, key) for key in over) else []


def holders_of_locks(stuck: StuckSet) -> list[ThreadKey]:
    """The holders of locks that members wait for, if the holders wait for something other than a lock, also one of a manager, or
    room that another one could make.
    """
    if client_calls(stuck):
        return []
    waiting = [key for key in stuck.closed.core if stuck.wait_state(key).kind in LOCKS and _knows_holder(stuck, key)]
    holders = dict.fromkeys(target for key in waiting for target in helpers_of(stuck, key))
    return [key for key in holders if stuck.wait_state(key).kind not in LOCKS and not waits_for_room(stuck, key)]


def _knows_holder(stuck: StuckSet, key: ThreadKey) -> bool:
    edge = stuck.graph.node(key).edge
    return edge is not None and edge.holder_known
