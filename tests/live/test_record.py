"""A case is recorded once more in its own folder, by its program."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from mpmon.session.recording import read_recording
from tests.hangs.expected import HOME, read_expected
from tests.hangs.record import record

pytestmark = pytest.mark.live


def test_a_case_with_its_program_is_recorded_in_place(tmp_path: Path) -> None:
    known = read_expected(HOME / "mp-lock-abba")
    case = Path(shutil.copytree(HOME / "mp-lock-abba", tmp_path / "mp-lock-abba"))
    (case / "recording.jsonl.gz").unlink()

    assert record(case, tmp_path, sys.executable, again=False) == case

    found = read_expected(case)
    assert (found.title, found.causes, found.lines) == (known.title, known.causes, known.lines)
    assert (sorted(found.roles.values()), found.every_suspect) == (sorted(known.roles.values()), True)
    last = list(read_recording(case / "recording.jsonl.gz"))[-1]
    assert set(found.suspects) < {row.pid for row in last.processes}
    assert (case / "job.py").exists()


def test_a_case_of_another_folder_replaces_none_by_chance(tmp_path: Path) -> None:
    other = Path(shutil.copytree(HOME / "mp-lock-abba", tmp_path / "other"))
    shutil.copytree(other, tmp_path / "mp-lock-abba")
    with pytest.raises(SystemExit, match="exists already"):
        record(other, tmp_path, sys.executable, again=False)
