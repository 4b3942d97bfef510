"""A process has nearly reached its limit of open files.

What it looks like: soon "Too many open files" (errno 24) or "received 0 items of ancdata" in a queue or a DataLoader.
Why: with torch's default sharing strategy each shared tensor keeps a descriptor open, and each tensor in transit another one;
small tensors cost as much as large ones.
What to do: raise the limit (ulimit -n); keep fewer received tensors (.clone() what is kept); send one large tensor instead of
many small ones; or torch.multiprocessing.set_sharing_strategy("file_system").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.ipc.near import is_near
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import Limits

TOPIC = "descriptors-near-limit"


def remarks(job: JobState) -> Iterator[Remark]:
    """One for each process."""
    for row in job.memory.same(TOPIC, _near, job.snapshot.limits):
        yield _remark(job, row)


def _near(rows: Iterable[Limits]) -> list[Limits]:
    return [row for row in rows if is_near(row.descriptors, row.descriptors_limit)]


def _remark(job: JobState, row: Limits) -> Remark:
    torch = row.storage_descriptors
    return Remark(
        topic=TOPIC, pids=(row.pid,),
        summary=f"{job.ipc.ground.who(row.pid)} has {row.descriptors} of {row.descriptors_limit} files open"
        + (f", {torch} of them tensors in shared memory" if torch else ""),
        evidence=(f"/proc/{row.pid}/fd, and 'Max open files' of /proc/{row.pid}/limits",),
        advice=(
            "Raise the limit: ulimit -n 65536 before starting, or resource.setrlimit in the program.",
            *(("Keep copies of received tensors (.clone()), or set_sharing_strategy('file_system').",) if torch else ()),
        ),
    )  # fmt: skip
