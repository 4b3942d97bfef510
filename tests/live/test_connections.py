"""mpmon attached to small real servers and their clients: the thread at the other end is the one to look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpmon.diagnosis.findings import Verdict
from tests.live.running import Program, watch

pytestmark = pytest.mark.live


@pytest.mark.parametrize(
    ("file", "argument", "mark"),
    [
        ("served.py", "thread", "# STUCK thread"),
        ("served.py", "accept", "# STUCK accept"),
        ("managed_queue.py", "3", "# STUCK"),
        ("managed_queue.py", "0", "# STUCK"),
    ],
)
def test_whoever_is_late_at_the_other_end(file: str, argument: str, mark: str) -> None:
    with Program(file, argument).hear("child") as program:
        seen = watch(program.pid).diagnosis
        assert seen.verdict is Verdict.HUNG, seen.because
        (suspect,) = seen.findings[0].suspects
        assert suspect.pid == program.pids["child"]
        assert suspect.frame is not None
        assert (Path(suspect.frame.file), suspect.frame.line) == (program.file, program.line(mark))
        assert program.pid in {row.pid for row in seen.findings[0].waiters}
