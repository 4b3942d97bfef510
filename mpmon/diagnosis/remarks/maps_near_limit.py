"""A process has nearly reached its limit of memory mappings.

What it looks like: soon "Cannot allocate memory" (errno 12) although there is enough.
Why: each shared tensor is a mapping of its own, and vm.max_map_count (65,530 by default) limits them.
What to do: keep fewer received tensors (.clone() what is kept), send one large tensor instead of many small ones, or raise
vm.max_map_count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.ipc.near import is_near
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import Limits

TOPIC = "maps-near-limit"


def remarks(job: JobState) -> Iterator[Remark]:
    """One for each process."""
    for row in job.memory.same(TOPIC, _near, job.snapshot.limits):
        yield _remark(job, row)


def _near(rows: Iterable[Limits]) -> list[Limits]:
    return [row for row in rows if is_near(row.maps, row.maps_limit)]


def _remark(job: JobState, row: Limits) -> Remark:
    return Remark(
        topic=TOPIC, pids=(row.pid,),
        summary=f"{job.ipc.ground.who(row.pid)} has {row.maps} of {row.maps_limit} memory mappings"
        + (f", {row.storages} of them tensors in shared memory" if row.storages else ""),
        evidence=(f"/proc/{row.pid}/maps, and vm.max_map_count",),
        advice=(
            "Keep copies of received tensors (.clone()), and send one large tensor instead of many small ones.",
            "Or raise the limit: sudo sysctl vm.max_map_count=262144",
        ),
    )  # fmt: skip
