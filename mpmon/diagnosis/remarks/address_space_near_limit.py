"""A process has used up nearly all of its address space.

What it looks like: "CUDA out of memory" or "Cannot allocate memory" although GPU and host have plenty.
Why: for each segment of CUDA memory it receives from expandable segments, a receiver reserves addresses for the whole GPU and
an eighth more (torch before 2.13, pytorch pull request 186218); or a limit was set (ulimit -v).
What to do: switch expandable segments off where CUDA memory is shared, or drop received tensors; raise ulimit -v.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.humanize import size
from mpmon.diagnosis.ipc.near import is_near
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import Limits

TOPIC = "address-space-near-limit"

SHARE = 0.8


def remarks(job: JobState) -> Iterator[Remark]:
    """One for each process."""
    for row in job.memory.same(TOPIC, _near, job.snapshot.limits):
        yield _remark(job, row)


def _near(rows: Iterable[Limits]) -> list[Limits]:
    return [row for row in rows if is_near(row.address_bytes, row.address_limit, SHARE)]


def _remark(job: JobState, row: Limits) -> Remark:
    shim = job.ipc.ground.shims.get(row.pid)
    received = shim.received if shim else 0
    return Remark(
        topic=TOPIC, pids=(row.pid,),
        summary=f"{job.ipc.ground.who(row.pid)} has used up {size(row.address_bytes or 0)} of {size(row.address_limit or 0)} of "
        "address space" + (f", and has received {received} transfers of CUDA memory" if received else ""),
        evidence=(f"/proc/{row.pid}/statm, and 'Max address space' of /proc/{row.pid}/limits or the processor's limit",),
        advice=(
            "Where CUDA memory is shared: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False in the sender.",
            "Else look for repeated reservations (mmap without use), and check ulimit -v.",
        ),
    )  # fmt: skip
