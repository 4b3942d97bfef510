"""Machines of the job have different versions of mpmon.

What it looks like: a machine is left out, and nothing is known of its ranks.
Why: agents and the mpmon that asks them exchange raw facts, so they must be the same version.
What to do: install the same version everywhere, or let all machines use one shared folder: --agent PATH.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.state.job_state import JobState

TOPIC = "version-mismatch"


def remarks(job: JobState) -> Iterator[Remark]:
    """One of all machines."""
    hosts: dict[str, list[str]] = defaultdict(list)
    for row in job.snapshot.nodes:
        if row.version is not None:
            hosts[row.version].append(row.host)
    if len(hosts) > 1:
        found = sorted(hosts.items(), key=lambda pair: (-len(pair[1]), pair[0]))
        said = ", ".join(f"{version[:40]} on {several(names)}" for version, names in found[:4])
        yield Remark(
            topic=TOPIC, summary=f"machines have {len(hosts)} versions of mpmon: {said}",
            advice=("Install the same version everywhere, or name a copy that all can reach: --agent PATH",),
        )  # fmt: skip
