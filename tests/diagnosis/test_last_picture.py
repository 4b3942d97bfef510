"""What is shown of a job that has ended: who it was, and how each of them ended."""

from __future__ import annotations

import msgspec

from mpmon.diagnosis import History, diagnose
from mpmon.diagnosis.findings import Diagnosis, Observation
from mpmon.model import Exit, Process
from mpmon.reports import text
from tests.builders import ROOT, START, process, snapshot

RANK = process(4101, parent=ROOT, environment={"RANK": "0", "WORLD_SIZE": "2"})
MAIN = process()


def ended(row: Process, code: int | None, *, at: float) -> Exit:
    last = msgspec.structs.replace(row, exit_code=code)
    return Exit(pid=row.pid, start_time=row.start_time, seen_at=START + at, process=last)


def last_picture(*exits: Exit, at: float = 2.0, left: tuple[Process, ...] = ()) -> Observation:
    """A job of two, of which these ended."""
    history = History().add(snapshot(MAIN, RANK)).add(snapshot(MAIN, RANK, at=1.0))
    now = snapshot(*left, *exits, at=at)
    history = history.add(msgspec.structs.replace(now, root_pid=ROOT))
    return Observation(snapshot=now, diagnosis=diagnose(history), watched_s=at)


def views(diagnosis: Diagnosis) -> list[tuple[str, str, str]]:
    return [(view.role, view.mood, view.does) for view in diagnosis.processes]


def test_everybody_is_there_with_the_way_he_ended() -> None:
    picture = last_picture(ended(RANK, 9, at=1.5), ended(MAIN, 1 << 8, at=2.0))
    assert views(picture.diagnosis) == [
        ("rank 0", "dead", "killed by SIGKILL (9)"),
        ("main", "dead", "ended with exit status 1"),
    ]


def test_a_status_that_nobody_saw_is_not_made_up() -> None:
    picture = last_picture(ended(RANK, None, at=2.0), ended(MAIN, None, at=2.0))
    assert {does for _, _, does in views(picture.diagnosis)} == {"ended while mpmon watched"}


def test_one_that_ended_long_before_is_not_among_the_last() -> None:
    picture = last_picture(ended(RANK, 0, at=2.0), ended(MAIN, 0, at=200.0), at=200.0)
    assert [role for role, _, _ in views(picture.diagnosis)] == ["main"]


def test_while_somebody_lives_the_dead_are_not_shown() -> None:
    picture = last_picture(ended(RANK, 9, at=2.0), left=(MAIN,))
    assert [role for role, _, _ in views(picture.diagnosis)] == ["main"]


def test_the_report_tells_it_too() -> None:
    report = text.render(last_picture(ended(RANK, 9, at=1.5), ended(MAIN, 1 << 8, at=2.0)))
    assert "4100 X  main                     ended with exit status 1" in report
    assert "4101 X    rank 0                 killed by SIGKILL (9)" in report
