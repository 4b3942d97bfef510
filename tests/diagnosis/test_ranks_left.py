"""Ranks that hang, and whose launcher has ended."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mpmon.diagnosis import History, diagnose
from mpmon.diagnosis.findings import Verdict
from mpmon.model import Snapshot
from mpmon.session.recording import read_recording

CASE = Path(__file__).parents[1] / "hangs" / "barrier-rank0-branch"


def without_launcher(snapshot: Snapshot) -> Snapshot:
    """A round after the launcher was killed: its ranks are children of init."""
    root = snapshot.root_pid
    left = (row for row in snapshot.processes if row.pid != root)
    orphans = tuple(msgspec.structs.replace(row, ppid=1) if row.ppid == root else row for row in left)
    rows = {
        name: tuple(row for row in getattr(snapshot, name) if row.pid != root)
        for name in ("threads", "stacks", "blocked")
    }
    return msgspec.structs.replace(snapshot, processes=orphans, **rows)


def test_they_still_hang() -> None:
    history, causes = History(), []
    rounds = list(read_recording(CASE / "recording.jsonl.gz"))
    for number, snapshot in enumerate(rounds):
        history = history.add(snapshot if number < len(rounds) - 2 else without_launcher(snapshot))
        found = diagnose(history)
        causes += [found.findings[0].cause] if found.verdict is Verdict.HUNG else []
    assert found.verdict is Verdict.HUNG, found.because
    assert len(causes) > 2
    assert len(set(causes)) == 1
