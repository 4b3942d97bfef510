"""mpmon has fewer rights on some machines than on others.

What it looks like: there are no stacks for the ranks of one machine, so waits for them cannot be explained.
Why: mpmon runs there as another user, in a container without the capability, or the machine forbids reading other processes
(Yama).
What to do: see the reason given for the machine. If all machines are affected, each process says so itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.state.job_state import JobState

TOPIC = "rights-differ"

MOST = 4
"""Reasons that are told, each of some machines."""


def remarks(job: JobState) -> Iterator[Remark]:
    """One of all machines."""
    partial: dict[str, list[str]] = defaultdict(list)
    for row in job.snapshot.nodes:
        if row.rights:
            partial[row.rights].append(row.host)
    hosts = [host for names in partial.values() for host in names]
    if hosts and any(row.rights == "" for row in job.snapshot.nodes):
        yield Remark(
            topic=TOPIC, summary=f"mpmon lacks the rights to read the job on {several(hosts)}, which it has on other machines",
            evidence=tuple(f"{several(names)}: {why}" for why, names in list(partial.items())[:MOST]),
            advice=("Give mpmon the same rights there: mpmon explain rights",),
        )  # fmt: skip
