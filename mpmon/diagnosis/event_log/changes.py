"""What changed between two rounds: one function per kind of change, in the table `CHANGES`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from mpmon.diagnosis.findings import Diagnosis, Event, Finding, Remark, Verdict
from mpmon.diagnosis.humanize import age, several
from mpmon.model import Snapshot


class Round(NamedTuple):
    """A diagnosed snapshot."""

    snapshot: Snapshot
    diagnosis: Diagnosis

    @property
    def over(self) -> bool:
        """Every process has ended."""
        return all(row.ended for row in self.snapshot.processes if row.host or not self.snapshot.nodes)

    def event(self, kind: str, summary: str, *, pids: tuple[int, ...] = (), bad: bool = False) -> Event:
        """An event noticed in this round."""
        return Event(at=self.snapshot.taken_at, kind=kind, summary=summary, pids=pids, bad=bad)


def verdict(before: Round | None, now: Round) -> Iterator[Event]:
    """The job hangs, no longer hangs, became slow, or is healthy again."""
    was = before.diagnosis.verdict if before else Verdict.UNKNOWN
    found = now.diagnosis
    if found.verdict is was or now.over:
        return
    if found.verdict is Verdict.HUNG:
        lasts = "" if found.since is None else f", for {age(now.snapshot.taken_at - found.since)} now"
        yield now.event("hang-began", f"the job hangs{lasts}", bad=True)
        return
    said = f"{found.verdict.value}: {found.because}"
    if was is Verdict.HUNG:
        yield now.event("hang-ended", f"the job no longer hangs; {said}")
    else:
        yield now.event("verdict", said)


def findings(before: Round | None, now: Round) -> Iterator[Event]:
    """Findings that began, changed or ended; cause and suspects identify a finding."""
    known = {_of(row): row for row in before.diagnosis.findings} if before else {}
    present = {_of(row): row for row in now.diagnosis.findings}
    for key, row in present.items():
        old = known.get(key)
        pids = tuple(suspect.pid for suspect in row.suspects)
        if old is None:
            said = f"{row.cause} ({row.certainty.value}): {row.summary}"
            yield now.event("finding-began", said, pids=pids, bad=True)
        elif old.certainty is not row.certainty:
            yield now.event("finding-changed", f"{row.cause} is now {row.certainty.value}", pids=pids, bad=True)
    for key, row in known.items():
        if key not in present:
            whom = several([suspect.role for suspect in row.suspects])
            said = f"no longer: {row.cause} of {whom}" if whom else f"no longer: {row.cause}"
            yield now.event("finding-ended", said, pids=tuple(s.pid for s in row.suspects))


def _of(row: Finding) -> tuple[str, frozenset[int]]:
    return row.cause, frozenset(suspect.pid for suspect in row.suspects)


def remarks(before: Round | None, now: Round) -> Iterator[Event]:
    """Remarks that began or ended; topic, processes and devices identify a remark."""
    known = {_about(row): row for row in before.diagnosis.remarks} if before else {}
    present = {_about(row): row for row in now.diagnosis.remarks}
    for key, row in present.items():
        if key not in known:
            yield now.event("remark-began", row.summary, pids=row.pids)
    for key, row in known.items():
        if key not in present:
            yield now.event("remark-ended", f"no longer: {row.summary}", pids=row.pids)


def _about(row: Remark) -> tuple[str, frozenset[int], tuple[str, ...]]:
    return row.topic, frozenset(row.pids), row.gpu_uuids


def gpus(before: Round | None, now: Round) -> Iterator[Event]:
    """Devices that became unreadable, or readable again, and errors that the driver reports."""
    known = {row.uuid: row for row in before.snapshot.gpus} if before else {}
    for row in now.snapshot.gpus:
        old = known.get(row.uuid)
        was = old.problem if old else None
        if row.problem and row.problem != was:
            yield now.event("gpu-lost", f"GPU {row.index}: {row.problem}", bad=True)
        elif was and not row.problem:
            yield now.event("gpu-back", f"GPU {row.index} can be read again")
        for xid in row.xids[len(old.xids) if old else 0 :]:
            yield now.event("xid", f"GPU {row.index}: the driver reports Xid {xid.number}", bad=True)


def kills(before: Round | None, now: Round) -> Iterator[Event]:
    """Kills by the kernel's out-of-memory killer."""
    known = {row.path: row.oom_kill_seen_at for row in before.snapshot.cgroups} if before else {}
    for row in now.snapshot.cgroups:
        if row.oom_kill_seen_at is not None and row.oom_kill_seen_at != known.get(row.path):
            said = f"the out-of-memory killer acted in control group {row.path} ({row.oom_kills} times so far)"
            yield now.event("oom-kill", said, bad=True)


def end(before: Round | None, now: Round) -> Iterator[Event]:
    """No process is left."""
    if now.over and not (before and before.over):
        yield now.event("job-ended", "the job ended")


CHANGES: tuple[Callable[[Round | None, Round], Iterator[Event]], ...] = (
    kills, gpus, verdict, findings, remarks, end,
)  # fmt: skip
"""In the order in which they are reported."""
