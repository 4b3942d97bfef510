"""What happened while mpmon watched, in order: a fold over diagnosed snapshots.

`lives` tells who came and who ended, `changes` compares one round with the one before.
What did not change is not told, so a job that hangs for hours adds one line.
"""

from __future__ import annotations

from mpmon.diagnosis.chronicle.changes import CHANGES, Round
from mpmon.diagnosis.chronicle.lives import Lives
from mpmon.diagnosis.findings import Diagnosis, Event
from mpmon.model import NOT_PYTHON, ProbeReport, Snapshot

LONGEST = 500
"""Events that are kept."""


class Chronicle:
    """All that happened so far. `add` returns a new one; the old one stays as it was."""

    def __init__(self) -> None:
        self.log: tuple[Event, ...] = ()
        """The oldest first."""
        self._before: Round | None = None
        self._lives = Lives()
        self._problems: dict[str, str | None] = {}
        """What each probe complains of."""

    def add(self, snapshot: Snapshot, diagnosis: Diagnosis) -> Chronicle:
        """With one more round."""
        new = Chronicle()
        new._before = Round(snapshot, diagnosis)
        new._lives, came_and_went = self._lives.add(snapshot, diagnosis)
        new._problems = self._problems | {row.name: self._problem(row, snapshot) for row in snapshot.probes}
        happened = [*self._beginning(snapshot), *came_and_went, *self._changes(new._before), *self._complaints(new)]
        new.log = (*self.log, *happened)[-LONGEST:] if happened else self.log
        return new

    def _beginning(self, snapshot: Snapshot) -> list[Event]:
        if self._before is not None:
            return []
        count = len(snapshot.processes)
        said = f"mpmon watches pid {snapshot.root_pid}: {count} process{'' if count == 1 else 'es'}"
        return [Event(at=snapshot.taken_at, kind="watch", summary=said, pids=(snapshot.root_pid,))]

    def _changes(self, now: Round) -> list[Event]:
        return [event for change in CHANGES for event in change(self._before, now)]

    def _problem(self, report: ProbeReport, snapshot: Snapshot) -> str | None:
        """What is wrong with a probe now; a run in which all went well says nothing of processes it did not ask."""
        if not report.ok and report.problem and report.problem != NOT_PYTHON:
            return report.problem
        before = self._problems.get(report.name)
        return before if any(row.reason == before for row in snapshot.unknowns) else None

    def _complaints(self, new: Chronicle) -> list[Event]:
        """Probes that began to complain, or ceased to."""
        at = new._before.snapshot.taken_at if new._before else 0.0
        events: list[Event] = []
        for name, problem in new._problems.items():
            before = self._problems.get(name)
            if problem and problem != before:
                events.append(Event(at=at, kind="probe-failed", summary=f"{name}: {problem}", bad=True))
            elif before and not problem:
                events.append(Event(at=at, kind="probe-works", summary=f"{name}: works again"))
        return events
