"""Connections of a stuck set that lose bytes: retransmitted again and again, and never acknowledged.

A receiver's kernel acknowledges every segment that arrives, whether anybody reads the data or not. Once its buffer is full
it announces a zero window, and the sender only probes from time to time, which is not a retransmission. So a sender that
retransmits gets no acknowledgements: the link is cut, a firewall or a path with too small an MTU drops the packets, or the
other machine is off.

That explains a hang only if the set waits for those bytes. If both ends are observed, a thread of the set must be waiting
for data at the receiving end. If only the sender's end is observed, the set must wait for an external party.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import msgspec

from mpmon.diagnosis.graph import Ending
from mpmon.diagnosis.libraries import RANK_THREADS
from mpmon.diagnosis.ranks.addresses import is_this_machine
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.stuck.stuck_set import StuckSet
from mpmon.diagnosis.thresholds import LEAST_RESENDS, SILENT_S
from mpmon.model import KernelObject

_ENDS_BETWEEN = (Ending.CYCLE, Ending.OPEN)
"""Endings without a thread that is blocked by itself."""


class Stall(msgspec.Struct, frozen=True, kw_only=True):
    """A connection whose bytes do not arrive."""

    near: KernelObject
    """The sender's end."""
    sender: int
    """Its pid."""
    far: KernelObject | None = None
    """The other end; `None` if it was not seen."""
    receiver: int | None = None

    @property
    def addresses(self) -> tuple[str, str]:
        """Address and port of the sender, and of the receiver."""
        near, _, far = (self.near.path or "").removeprefix("tcp ").partition(" to ")
        return near, far


def stalls(stuck: StuckSet) -> tuple[Stall, ...]:
    """The byte-losing connections that a stuck set waits for, the longest silent one first."""
    job = stuck.job
    lost = job.memory.same("lost", _resending, job.snapshot.objects)
    if not lost or not (stuck.ending in _ENDS_BETWEEN or stuck.ending is Ending.EXTERNAL):
        return ()
    found = [stall for item in lost if _is_silent(job, item) and (stall := _stall(stuck, item))]
    return tuple(sorted(found, key=lambda row: row.near.acknowledged_at or 0.0))


def _resending(objects: tuple[KernelObject, ...]) -> tuple[KernelObject, ...]:
    return tuple(row for row in objects if (row.resends or 0) >= LEAST_RESENDS and row.unacknowledged_bytes)


def _is_silent(job: JobState, item: KernelObject) -> bool:
    return item.acknowledged_at is None or job.now - item.acknowledged_at >= SILENT_S


def _stall(stuck: StuckSet, item: KernelObject) -> Stall | None:
    sender = _waits_at(stuck, item)
    far = _far_end(stuck.job, item)
    if sender is None:
        return None
    if far is None:
        return Stall(near=item, sender=sender[0]) if _is_for_outside(stuck, sender) else None
    receiver = _waits_at(stuck, far)
    if stuck.ending not in _ENDS_BETWEEN or receiver is None or far.fill != 0:
        # A thread with data to read does not wait for lost data.
        return None
    return Stall(near=item, sender=sender[0], far=far, receiver=receiver[0])


def _is_for_outside(stuck: StuckSet, sender: ThreadKey) -> bool:
    """The set waits for an external party that the sender talks to: the other ranks over its process group, or its own
    connection.
    """
    if stuck.outside is None:
        return False
    return stuck.outside.of_job or sender in stuck.at_end


def _waits_at(stuck: StuckSet, item: KernelObject) -> ThreadKey | None:
    """The thread that waits at this end: a member of the set, or a thread that transfers a process group's data for one."""
    job = stuck.job
    pids = {handle.pid for handle in job.holders.get(item.id, ())}
    for key in stuck.closed.core or stuck.closed.members:
        if key[0] not in pids:
            continue
        if any(row.id == item.id for row in job.waits_on(key)):
            return key
        if carrier := next((other for other in job.natives(key[0]) if _carries(job, other, item)), None):
            return carrier
    return None


def _carries(job: JobState, key: ThreadKey, item: KernelObject) -> bool:
    """The thread was seen waiting at this end at some time: such threads wake briefly, and a sample may find one awake."""
    past = job.thread_history(key)
    if past is None or past.thread.name not in RANK_THREADS:
        return False
    return any(sample.blocked is not None and item.id in sample.blocked.waits_on for sample in past.samples)


def _far_end(job: JobState, item: KernelObject) -> KernelObject | None:
    """The other end, found by its id or, in another network namespace of this machine, by its addresses."""
    if item.peer is not None:
        return job.objects.get(item.peer)
    near, _, far = (item.path or "").removeprefix("tcp ").partition(" to ")
    found = job.memory.same("by addresses", _by_path, job.snapshot.objects).get(f"tcp {far} to {near}", ())
    return found[0] if len(found) == 1 and not is_this_machine(near) else None


def _by_path(objects: tuple[KernelObject, ...]) -> dict[str, list[KernelObject]]:
    found: dict[str, list[KernelObject]] = defaultdict(list)
    for item in objects:
        if item.kind == "socket" and item.path:
            found[item.path].append(item)
    return found


def hosts_between(found: tuple[Stall, ...]) -> Iterator[tuple[str, str]]:
    """IP addresses of senders and receivers, each direction between two hosts once."""
    yield from dict.fromkeys((_host(stall.addresses[0]), _host(stall.addresses[1])) for stall in found)


def _host(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")
