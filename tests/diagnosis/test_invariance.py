"""What must not matter for a diagnosis: the numbers of processes, and processes that have nothing to do with it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from mpmon.codec import TABLES
from mpmon.diagnosis import History, diagnose
from mpmon.diagnosis.findings import Diagnosis
from mpmon.model import Row, Snapshot
from mpmon.session.recording import read_recording
from tests.builders import blocked, process, thread
from tests.hangs.expected import cases

CASES = cases()
NUMBERS = {"pid", "tid", "ppid", "pgid", "sid", "owner_tid", "tracer_pid", "by_tid", "child", "joins"}
FURTHER = 1_000_000
_OF_A_PROCESS = re.compile(r"^(?!pipe|pty|socket|semaphore|file|mount|device|terminal|eventfd:\d+$)(\w+):(\d+)(?=$|:)")

Change = Callable[[Snapshot], Snapshot]


class Renumbered:
    """The same rounds with other pids; a row that was the same object in two rounds still is."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[Row, Row]] = {}

    def __call__(self, snapshot: Snapshot) -> Snapshot:
        """One round."""
        tables = {table: tuple(map(self._row, getattr(snapshot, table))) for table in TABLES}
        return msgspec.structs.replace(snapshot, root_pid=snapshot.root_pid + FURTHER, **tables)

    def _row(self, row: Row) -> Row:
        if id(row) not in self._rows:
            new = {name: self._value(name, getattr(row, name)) for name in row.__struct_fields__}
            self._rows[id(row)] = (row, type(row)(**new))
        return self._rows[id(row)][1]

    def _value(self, name: str, value: object) -> object:
        if name in NUMBERS and isinstance(value, int) and value > 0:
            return value + FURTHER
        if name in ("holders", "sharers", "takers", "putters", "getters", "pids", "queued_for") and isinstance(
            value, tuple
        ):
            return tuple(pid + FURTHER for pid in value)
        if name in ("ledgers", "undone") and isinstance(value, tuple):
            return tuple((pid + FURTHER, count) for pid, count in value)
        if name in ("id", "object", "peer", "listener", "joined", "waits_on") and isinstance(value, str):
            return _OF_A_PROCESS.sub(lambda found: f"{found[1]}:{int(found[2]) + FURTHER}", value)
        names = isinstance(value, tuple) and all(isinstance(each, str) for each in value)
        if name in ("waits_on", "holds", "reaches", "tasks") and names and isinstance(value, tuple):
            return tuple(self._value("id", each) for each in value)
        return self._row(value) if isinstance(value, Row) else value


def with_a_stranger(snapshot: Snapshot) -> Snapshot:
    """The same round with one more process of the group, which sleeps and shares nothing with anybody."""
    pid = 999_999
    stranger = process(pid, parent=1, name="sleep", pgid=snapshot.root_pid, cmdline=("sleep", "inf"), exe="/bin/sleep")
    return msgspec.structs.replace(
        snapshot, processes=(*snapshot.processes, stranger), threads=(*snapshot.threads, thread(pid, name="sleep")),
        blocked=(*snapshot.blocked, blocked("clock_nanosleep", pid=pid, ran_at=1.0)),
    )  # fmt: skip


def diagnosed(case: Path, change: Change | None = None) -> Diagnosis:
    history = History()
    for snapshot in read_recording(case / "recording.jsonl.gz"):
        history = history.add(change(snapshot) if change else snapshot)
    return diagnose(history)


def said(diagnosis: Diagnosis, further: int = 0) -> list[tuple[object, ...]]:
    """Verdict, and of each finding the cause and who is in it."""
    rows: list[tuple[object, ...]] = [(diagnosis.verdict,)]
    for finding in diagnosis.findings:
        suspects = [(row.pid + further, row.role, row.frame) for row in finding.suspects]
        waiters = [(row.pid + further, row.role) for row in finding.waiters]
        rows.append((finding.cause, finding.certainty, suspects, waiters))
    return rows


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_other_pids_change_nothing_but_the_numbers(case: Path) -> None:
    assert said(diagnosed(case, Renumbered())) == said(diagnosed(case), further=FURTHER)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_stranger_changes_nothing(case: Path) -> None:
    assert said(diagnosed(case, with_a_stranger)) == said(diagnosed(case))
