"""Machines of the job do not answer.

What it looks like: a machine is grey on the hosts page; the current state of its processes is unknown, and waits for them
cannot be explained. The others are watched.
Why: it is down or cut off, its agent was ended, it refuses the login, or has no mpmon.
What to do: see the reason next to its name. A machine that was only late comes back by itself; the ranks of a machine that is
down are gone, and the others will wait for them until their timeout.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.humanize import age, several
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import NO_JOB, Node

TOPIC = "node-unreachable"

MOST = 8
"""Machines of which each is told."""


def remarks(job: JobState) -> Iterator[Remark]:
    """One of all machines."""
    silent = [row for row in job.snapshot.nodes if row.problem and row.state != NO_JOB]
    if silent:
        heard = [row.heard_at for row in silent if row.heard_at is not None]
        count = f"{len(silent)} of {len(job.snapshot.nodes)} machines"
        more = (f"and {len(silent) - MOST} more",) if len(silent) > MOST else ()
        yield Remark(
            topic=TOPIC, summary=f"{count} {'does' if len(silent) == 1 else 'do'} not answer: "
            f"{several([row.host for row in silent])}", since=min(heard, default=None),
            evidence=(*(_words(job, row) for row in silent[:MOST]), *more),
            advice=("The hosts page (H) has the commands to log in there.",),
        )  # fmt: skip


def _words(job: JobState, row: Node) -> str:
    heard = "" if row.heard_at is None else f" (last heard from {age(max(0.0, job.now - row.heard_at))} ago)"
    return f"{row.host} {row.problem}{heard}"
