"""This version of torch has a known bug in sharing CUDA memory, and the job is affected.

What it looks like: "received sharable handle from a future version of torch", "pidfd_getfd: Bad file descriptor", transfers
that never arrive, or a receiver that maps the same memory repeatedly.
Why: the format of CUDA memory handles in messages changed between versions of torch, and some had bugs with expandable
segments; the evidence names the issue.
What to do: use the same version of torch in all processes that share CUDA memory, and one without the bug; or set
PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False in the sender.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.ipc.segments import are_expandable
from mpmon.diagnosis.state.job_state import JobState

TOPIC = "ipc-torch-faults"

Version = tuple[int, int]


class Fault(NamedTuple):
    """A known bug of torch in transfers from senders with expandable segments."""

    first: Version
    before: Version
    arrives: bool
    """Whether the transfers arrive nevertheless."""
    says: str
    source: str


FAULTS = (
    Fault((2, 9), (2, 13), False, "receivers read fabric handles as descriptors (pidfd_getfd: Bad file descriptor)",
          "pytorch issue 179220; fixed by pull request 179618"),
    Fault((2, 13), (2, 14), True, "each transfer of one segment gets a new handle, and the receiver maps it again",
          "pytorch issue 198305, a regression of pull request 179618"),
)  # fmt: skip

FEWEST_RECEIVED = 16
"""Minimum number of transfers to one receiver; each may cost a mapping."""

HANDLES_CHANGED = ((2, 13), "torch 2.13 writes version 3 handles, which earlier versions refuse")


def remarks(job: JobState) -> Iterator[Remark]:
    """One remark for each fault and sender; then for senders and receivers with different versions of torch."""
    versions = {row.pid: row.torch for row in job.snapshot.limits if row.torch}
    senders = sorted({row.pid for row in job.snapshot.exports})
    for sender in senders:
        number = _number(versions.get(sender))
        for fault in FAULTS if number and are_expandable(job.processes.get(sender)) else ():
            if number and fault.first <= number < fault.before and (count := _met(job, sender, fault)):
                yield _of_fault(job, sender, versions[sender], fault, count)
        yield from _of_versions(job, sender, versions)


def _number(version: str | None) -> Version | None:
    found = re.match(r"([0-9]{1,9})\.([0-9]{1,9})", version or "")
    return (int(found[1]), int(found[2])) if found else None


def _met(job: JobState, sender: int, fault: Fault) -> int:
    """Number of the sender's transfers that were affected by the fault."""
    if not fault.arrives:
        return sum(1 for view, _ in job.ipc.never_received if view.producer == sender)
    takers = {pid for view in job.ipc.exports if view.producer == sender for pid in view.consumers}
    received = max((shim.received for pid, shim in job.ipc.ground.shims.items() if pid in takers), default=0)
    return received if received >= FEWEST_RECEIVED else 0


def _of_fault(job: JobState, sender: int, version: str, fault: Fault, count: int) -> Remark:
    met = f"{count} of its transfers were received" if fault.arrives else f"{count} of its transfers never arrived"
    return Remark(
        topic=TOPIC, pids=(sender,),
        summary=f"{job.ipc.ground.who(sender)} shares expandable segments with torch {version}, where {fault.says}; {met}",
        evidence=(fault.source,),
        advice=("Start it with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False, or with another version of torch.",),
    )  # fmt: skip


def _of_versions(job: JobState, sender: int, versions: dict[int, str]) -> Iterator[Remark]:
    own, (changed, why) = _number(versions.get(sender)), HANDLES_CHANGED
    getters = {view.id: view.consumers for view in job.ipc.queues}
    queues = {view.queue for view in job.ipc.exports if view.producer == sender and view.queue}
    for receiver in sorted({pid for queue in queues for pid in getters.get(queue, ()) if pid != sender}):
        other = _number(versions.get(receiver))
        if own and other and other < changed <= own:
            yield Remark(
                topic=TOPIC, pids=(sender, receiver),
                summary=f"{job.ipc.ground.who(sender)} sends CUDA memory with torch {versions[sender]} to "
                f"{job.ipc.ground.who(receiver)} with torch {versions[receiver]}, which cannot read its handles",
                evidence=(why,), advice=("Use one version of torch in all processes that share CUDA memory.",),
            )  # fmt: skip
