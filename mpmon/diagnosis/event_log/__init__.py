"""What happened while mpmon watched, in order: a fold over diagnosed snapshots.

`lives` reports which processes started and ended, `changes` compares one round with the previous one.
Unchanged facts are not reported, so a job that hangs for hours adds one line; nor are probe failures that are gone in the
next round.
"""

from __future__ import annotations

from typing import NamedTuple

from mpmon.diagnosis.event_log.changes import CHANGES, Round
from mpmon.diagnosis.event_log.lives import Lives
from mpmon.diagnosis.findings import Diagnosis, Event
from mpmon.diagnosis.hosts import told_event
from mpmon.model import NOT_PYTHON, ProbeReport, Snapshot

LONGEST = 500
"""Most events that are kept."""


LASTS_S = 30.0
"""Once a probe's problem is this old, it is reported even if the probe did not run again."""


class _Complaint(NamedTuple):
    """A problem of one probe."""

    problem: str
    since: float
    """Seconds since the epoch."""
    samples: int = 1
    """Number of consecutive runs that had it."""

    def lasts(self, now: float) -> bool:
        """Whether it is more than temporary."""
        return self.samples > 1 or now - self.since >= LASTS_S


class EventLog:
    """All that happened so far. `add` returns a new one; the old one stays as it was."""

    def __init__(self) -> None:
        self.log: tuple[Event, ...] = ()
        """The oldest first."""
        self._before: Round | None = None
        self._lives = Lives()
        self._complaints: dict[str, _Complaint] = {}
        """By probe."""
        self._told: dict[str, str] = {}
        """Reported problems that are not over, by probe."""
        self._bottleneck: tuple[int, ...] = ()
        """The bottleneck that was last reported."""

    def add(self, snapshot: Snapshot, diagnosis: Diagnosis) -> EventLog:
        """The event log with one more round."""
        new = EventLog()
        new._before = Round(snapshot, diagnosis)
        new._lives, came_and_went = self._lives.add(snapshot, diagnosis)
        new._complaints = self._heard(snapshot)
        new._told = {name: told for name, told in self._told.items() if name in new._complaints}
        new._told |= {name: row.problem for name, row in new._complaints.items() if row.lasts(snapshot.taken_at)}
        probes = self._of_probes(new._told, snapshot.taken_at)
        new._bottleneck = diagnosis.bottleneck.pids if diagnosis.bottleneck else self._bottleneck
        changes = [*self._changes(new._before), *self._of_bottleneck(snapshot, diagnosis)]
        happened = [*self._beginning(snapshot), *came_and_went, *changes, *probes]
        events = (told_event(event, snapshot) for event in happened)
        new.log = (*self.log, *events)[-LONGEST:] if happened else self.log
        return new

    def _beginning(self, snapshot: Snapshot) -> list[Event]:
        if self._before is not None:
            return []
        count = sum(1 for row in snapshot.processes if row.host or not snapshot.nodes)
        what = f"a job on {snapshot.host}" if snapshot.nodes else f"pid {snapshot.root_pid}"
        said = f"mpmon watches {what}: {count} process{'' if count == 1 else 'es'}"
        return [Event(at=snapshot.taken_at, kind="watch", summary=said, pids=(snapshot.root_pid,))]

    def _changes(self, now: Round) -> list[Event]:
        return [event for change in CHANGES for event in change(self._before, now)]

    def _of_bottleneck(self, snapshot: Snapshot, diagnosis: Diagnosis) -> list[Event]:
        """A bottleneck other than the last one reported; a phase without a clear one is not reported."""
        found = diagnosis.bottleneck
        if found is None or found.pids == self._bottleneck:
            return []
        return [Event(at=snapshot.taken_at, kind="bottleneck", summary=found.summary, pids=found.pids)]

    def _heard(self, snapshot: Snapshot) -> dict[str, _Complaint]:
        """The current problems of probes; a probe that did not run keeps its last one."""
        found = dict(self._complaints)
        for report in snapshot.probes:
            before = found.pop(report.name, None)
            problem = _problem(report, before, snapshot)
            if before and problem == before.problem:
                found[report.name] = before._replace(samples=before.samples + 1)
            elif problem:
                found[report.name] = _Complaint(problem, snapshot.taken_at)
        return found

    def _of_probes(self, told: dict[str, str], at: float) -> list[Event]:
        """Probes with a new problem, or whose problem is over. These events are not problems of the job."""
        failed = [f"{name}: {problem}" for name, problem in told.items() if self._told.get(name) != problem]
        works = [f"{name}: works again" for name in self._told if name not in told]
        return [
            *(Event(at=at, kind="probe-failed", summary=said) for said in failed),
            *(Event(at=at, kind="probe-works", summary=said) for said in works),
        ]


def _problem(report: ProbeReport, before: _Complaint | None, snapshot: Snapshot) -> str | None:
    """The problem of a probe; a run without failures says nothing about processes it did not read."""
    if not report.ok and report.problem and report.problem != NOT_PYTHON:
        return report.problem
    known = before is not None and any(row.reason == before.problem for row in snapshot.unknowns)
    return before.problem if before and known else None
