"""The recording ends here, but the job did not: its file was truncated.

What it looks like: the last snapshot of a recording, in which nothing has ended.
Why: mpmon was killed or is still writing, the disk was full, or the file was copied only in part.
What to do: for later facts, copy the file again or make another recording.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.state.job_state import JobState

TOPIC = "recording-cut"


def remarks(job: JobState) -> Iterator[Remark]:
    """One, in the last round of such a recording."""
    for row in job.snapshot.probes:
        if row.name == "recording" and row.problem:
            yield Remark(
                topic=TOPIC, summary=f"the recording ends here, but {row.problem}",
                advice=("Later facts are missing: copy the file again, or record again.",),
            )  # fmt: skip
