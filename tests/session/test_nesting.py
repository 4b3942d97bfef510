"""What is noted around the calls of ranks that stay in different collectives."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mpmon.probes.files import Proc
from mpmon.session.nesting import Nesting, note_nesting
from tests.builders import stack

RANKS = os.getpid(), os.getppid()
"""Two processes that see the file."""

SOURCE = """\
def main(rank):
    while True:
        for batch in batches:
            reduce(batch)
        if rank == 0:
            meet()
"""
REDUCES, MEETS = 4, 6


@pytest.fixture
def job(tmp_path: Path) -> str:
    """The file that both ranks run."""
    file = tmp_path / "job.py"
    file.write_text(SOURCE)
    os.utime(file, (0, 0))
    return str(file)


def looks(file: str, *lines: int) -> dict[int, Any]:
    """Looks at ranks that were found twice in a collective which `main` has called at these lines."""
    rows = zip(RANKS, lines, strict=True)
    return {
        pid: SimpleNamespace(
            pid=pid, in_collective=frozenset({pid}),
            stacks=(
                stack("main", "torch/distributed/distributed_c10d.py:3252 all_reduce", f"{file}:{line} main", pid=pid),
            ),
        )
        for pid, line in rows
    }  # fmt: skip


def noted(found: dict[int, Any]) -> list[tuple[tuple[str, ...] | None, tuple[str, ...]]]:
    frames = [found[pid].stacks[0].frames for pid in RANKS]
    assert all(row[0].loops is None for row in frames)
    return [(row[1].loops, row[1].tested) for row in frames]


def test_of_ranks_that_came_by_different_lines(job: str) -> None:
    found = looks(job, REDUCES, MEETS)
    note_nesting(Proc(), found, {})
    assert noted(found) == [(("while 2", "for 3"), ()), (("while 2",), ("rank",))]


def test_of_ranks_at_the_same_line_nothing_is_read(job: str) -> None:
    found = looks(job, REDUCES, REDUCES)
    note_nesting(Proc(), found, {})
    assert noted(found) == [(None, ())] * 2


def test_each_place_is_read_once(job: str) -> None:
    known: Nesting = {}
    note_nesting(Proc(), looks(job, REDUCES, MEETS), known)
    Path(job).unlink()
    found = looks(job, REDUCES, MEETS)
    note_nesting(Proc(), found, known)
    assert noted(found)[0] == (("while 2", "for 3"), ())


def test_without_the_source_nothing_is_known(tmp_path: Path) -> None:
    found = looks(str(tmp_path / "none.py"), REDUCES, MEETS)
    note_nesting(Proc(), found, {})
    assert noted(found) == [(None, ())] * 2
