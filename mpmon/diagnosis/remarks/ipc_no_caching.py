"""CUDA memory is shared with the caching allocator switched off.

What it looks like: received tensors whose content changes, or CUDA errors in the receiver.
Why: with PYTORCH_NO_CUDA_MEMORY_CACHING torch returns memory to the driver at once, even while a receiver still uses it.
What to do: do not share CUDA memory while that variable is set; it is for debugging.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.job_state import JobState

TOPIC = "ipc-no-caching"

VARIABLE = "PYTORCH_NO_CUDA_MEMORY_CACHING"


def remarks(job: JobState) -> Iterator[Remark]:
    """One for each producer."""
    for producer in sorted({row.pid for row in job.snapshot.exports}):
        process = job.processes.get(producer)
        if process and VARIABLE in (process.environment or {}):
            yield Remark(
                topic=TOPIC, pids=(producer,),
                summary=f"{job.ipc.ground.who(producer)} shares CUDA memory with {VARIABLE} set: "
                "memory that receivers still use may be freed",
                evidence=(f"{VARIABLE} in /proc/{producer}/environ",),
                advice=(f"Unset {VARIABLE}; it is for debugging, not for programs that share CUDA memory.",),
            )  # fmt: skip
