"""The clocks of the machines of a job differ.

What it looks like: a machine's clock is more than a second ahead of most others, or behind them. mpmon corrects for that in
all its output; it cannot correct the job's logs.
Why: no service sets the clocks (chrony, systemd-timesyncd), or it does not reach its server.
What to do: start that service. Until then, do not compare times in the logs of different machines.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.humanize import age, several
from mpmon.diagnosis.state.job_state import JobState

TOPIC = "clock-skew"

SKEW_S = 1.0
"""Clocks that differ by less mislead nobody."""


def remarks(job: JobState) -> Iterator[Remark]:
    """One of all machines."""
    wrong = [row for row in job.snapshot.nodes if abs(row.offset_s) > SKEW_S]
    if wrong:
        said = [f"{row.host} by {age(abs(row.offset_s))} {'ahead' if row.offset_s > 0 else 'behind'}" for row in wrong]
        yield Remark(
            topic=TOPIC, summary=f"clocks of machines are wrong: {several(said)}",
            advice=("Times in the job's logs are off by as much: check whether chronyd or systemd-timesyncd runs there.",),
        )  # fmt: skip
