"""The recordings of the machines of a job were not made at the same time.

What it looks like: recordings that are replayed together, some of which had ended before others began. They are aligned as if
all had ended at the same moment.
Why: they were made on one machine after another.
What to do: if the job hung the whole time, nothing. If it may have made progress in between, record again, on all machines at
once.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.humanize import age, several
from mpmon.diagnosis.state.job_state import JobState

TOPIC = "recordings-apart"

LATER_S = 5.0
"""Seconds; a smaller difference does not matter for a hang."""


def remarks(job: JobState) -> Iterator[Remark]:
    """One of all machines."""
    older = [row for row in job.snapshot.nodes if row.later_s > LATER_S]
    if older:
        said = [f"that of {row.host} {age(row.later_s)} before the last one" for row in older]
        yield Remark(
            topic=TOPIC, summary=f"the recordings were not made at the same time: {several(said)}",
            advice=("If the job may have made progress in between, record again on all machines at once.",),
        )  # fmt: skip
