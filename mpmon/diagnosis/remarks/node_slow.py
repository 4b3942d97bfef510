"""One machine of the job differs from the others in something that slows a machine down.

What it looks like: the job makes progress, but slower than before or than it should, and all ranks are equally slow, because
each of them waits for the slowest one in every step. One machine loses CPU time to other virtual machines, has a CPU quota
that runs out, waits for memory, has a GPU below its clock, or loses packets; the others do not.
Why: an overcommitted host, a limit that was set on one machine only, another user's job, heat, a cable.
What to do: fix the metric that differs; meanwhile leave that machine out. Machines are compared with the median of at least
three, over half a minute; with only two, only values that would be bad on any machine are reported. Load, watts and
utilization are reported only for a machine with a rank that the job is known to wait for: machines that do different work
differ in them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.hosts import Hosts
from mpmon.diagnosis.humanize import age, ranges, several
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.throughput.figures import Difference, differences
from mpmon.diagnosis.throughput.pace import progress
from mpmon.spans import spans

TOPIC = "node-slow"

MOST = 4
"""Machines of which each is told."""


def remarks(job: JobState) -> Iterator[Remark]:
    """One for all machines."""
    if not job.snapshot.nodes:
        return
    rows = {row.host: row for row in job.snapshot.figures}
    found = list(differences(rows))
    awaited = _awaited(job) if any(not row.kind.accuses for row in found) else frozenset()
    told: dict[str, list[Difference[str]]] = defaultdict(list)
    for row in found:
        if row.kind.accuses or row.machine in awaited:
            told[row.machine].append(row)
    # If at least half of the machines differ, no machine is the slow one.
    if not told or (len(rows) > 2 and 2 * len(told) >= len(rows)):
        return
    first, *_ = told
    hosts = Hosts(job.snapshot)
    yield Remark(
        topic=TOPIC, summary=f"{several(list(told))} may slow the job down: {_words(told[first][0])}"
        + (f" (on {first})" if len(told) > 1 else ""),
        pids=tuple(pid for pid in job.ranks if hosts.name(pid) in told),
        evidence=tuple(line for host in list(told)[:MOST] for line in _evidence(job, host, told[host], awaited)),
        advice=tuple(dict.fromkeys(row.kind.advice for rows in told.values() for row in rows)),
    )  # fmt: skip


def _awaited(job: JobState) -> frozenset[str]:
    """The machine of the rank that all others wait for, if known."""
    bottleneck = progress(job).bottleneck
    hosts = Hosts(job.snapshot)
    found = frozenset(hosts.name(pid) for pid in bottleneck.pids) if bottleneck else frozenset()
    return found if len(found) == 1 else frozenset()


def _words(row: Difference[str]) -> str:
    return row.kind.words.format(number(row.value))


def _evidence(job: JobState, host: str, rows: list[Difference[str]], awaited: frozenset[str]) -> Iterator[str]:
    over_s = next(row.over_s for row in job.snapshot.figures if row.host == host)
    for row in rows:
        usual = "" if row.usual is None else f"; median of the {row.others} others {number(row.usual)}"
        yield f"{host}: {_words(row)}, over {age(over_s)}{usual}"
    hosts = Hosts(job.snapshot)
    numbers = (job.role(pid).rank for pid in job.ranks if hosts.name(pid) == host)
    if there := spans(rank for rank in numbers if rank is not None):
        waits = ", and all others wait for it" if host in awaited else ""
        yield f"{ranges(there)} run{'s' if there[0][0] == there[-1][1] else ''} there{waits}"


def number(value: float) -> str:
    """A number with its significant digits only."""
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}" if value >= 1 else f"{value:.2f}"
