"""Dead jobs left shared memory behind.

What it looks like: /dev/shm fills although little runs; free memory of the machine shrinks from job to job.
Why: a killed process removes nothing; tensors of the sharing strategy file_system and reference counts of CUDA memory have
names in /dev/shm and stay until they are removed or the machine restarts.
What to do: remove the files listed, if no container shares this /dev/shm (`--ipc=host`): mpmon sees only the processes of
its own pid namespace, and none of these has the files mapped.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.humanize import size
from mpmon.diagnosis.state.job_state import JobState

TOPIC = "shm-orphans"

LEAST_BYTES, LEAST_SHARE, MANY = 64 << 20, 0.01, 32
"""Minimum bytes, share of /dev/shm, or number of files worth reporting."""

SHOWN = 3


def remarks(job: JobState) -> Iterator[Remark]:
    """One for all of them."""
    memory = job.ipc.memory if any(row.creator_alive is False for row in job.snapshot.shared_files) else None
    orphans = memory.orphans if memory else ()
    held = sum(row.size_bytes for row in orphans)
    if memory is None or not (
        held >= LEAST_BYTES or len(orphans) >= MANY or (orphans and held >= LEAST_SHARE * memory.size_bytes)
    ):
        return
    largest = sorted(orphans, key=lambda row: -row.size_bytes)[:SHOWN]
    yield Remark(
        topic=TOPIC,
        summary=f"{len(orphans)} file{'s' if len(orphans) > 1 else ''} {size(held)} in /dev/shm belong to dead processes",
        evidence=tuple(f"{row.path} {size(row.size_bytes)}, made by pid {row.creator}, which is dead" for row in largest),
        advice=(_REMOVE,),
    )  # fmt: skip


_REMOVE = (
    "No process that mpmon can see has them mapped: if no other container shares this /dev/shm, remove them (mpmon --json lists "
    "them all under shared_memory.orphans)."
)
