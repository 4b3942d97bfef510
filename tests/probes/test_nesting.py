"""What is around a line: loops, and the tests on the way to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mpmon.probes.files import Proc
from mpmon.probes.nesting import MOST_NAMES, Around, around


def of_meet(folder: Path, source: str) -> Around | None:
    """What is around the line with `meet()`, as if this process had read the file when it began."""
    file = folder / "job.py"
    file.write_text(source)
    os.utime(file, (0, 0))
    line = next(number for number, row in enumerate(source.splitlines(), 1) if "meet()" in row)
    return around(Proc(), os.getpid(), [(str(file), line)]).get((str(file), line))


@pytest.mark.parametrize(
    ("source", "loops"),
    [
        ("meet()", ()),
        ("for x in y:\n    meet()", ("for 1",)),
        ("for x in meet():\n    pass", ()),
        ("for x in y:\n    pass\nelse:\n    meet()", ()),
        ("while meet():\n    pass", ("while 1",)),
        ("while True:\n    with a:\n        for x in y:\n            meet()", ("while 1", "for 3")),
        ("for x in y:\n    def step():\n        meet()", ()),
        ("for x in y:\n    try:\n        pass\n    except OSError:\n        meet()", ("for 1",)),
        ("for x in y:\n    match x:\n        case 1:\n            meet()", ("for 1",)),
        ("while True:\n    call(\n        1,\n    ); meet()", ("while 1",)),
    ],
)
def test_the_loops_around_a_line(tmp_path: Path, source: str, loops: tuple[str, ...]) -> None:
    found = of_meet(tmp_path, source)
    assert found
    assert found.loops == loops


@pytest.mark.parametrize(
    ("source", "tests"),
    [
        ("if rank == 0:\n    meet()", ("rank",)),
        ("if rank == 0:\n    pass\nelse:\n    meet()", ("not rank",)),
        ("if rank != 0:\n    meet()", ("not rank",)),
        ("if self.rank > 0:\n    meet()", ("not rank", "not self")),
        ("if rank < half:\n    meet()", ("half", "rank")),
        ("if not is_main:\n    meet()", ("not is_main",)),
        ("if is_main and step % 5 == 0:\n    meet()", ("is_main", "step")),
        ("if dist.get_rank() in (0, 1):\n    meet()", ("dist", "get_rank")),
        ("for x in y:\n    if rank != 0:\n        continue\n    meet()", ("rank",)),
        ("def save():\n    if rank == 0:\n        return\n    meet()", ("not rank",)),
        ("if rank == 0:\n    log()\nmeet()", ()),
        ("if meet():\n    pass", ()),
        ("if rank == 0:\n    def save():\n        meet()", ()),
        ("if a:\n    pass\nelif rank == 1:\n    meet()", ("not a", "rank")),
        ("main = rank == 0\nif main:\n    meet()", ("main", "rank")),
        ("other = rank != 0\nif not other:\n    meet()", ("not other", "rank")),
        ("me, size = int(os.environ['RANK']), 4\nif me != 0:\n    meet()", ("not RANK", "not me")),
        ("me = int(os.environ.get('RANK', 0))\nif me == 0:\n    meet()", ("RANK", "me")),
        ("self.first = me == 0\nme = self.rank\nif self.first:\n    meet()", ("first", "me", "rank", "self")),
        ("def first():\n    return dist.get_rank() == 0\nif first():\n    meet()", ("first", "get_rank")),
        ("main = rank == 0 and ready\nif main:\n    meet()", ("main", "rank", "ready")),
        ("main = rank == 0 and ready\nif not main:\n    meet()", ("not main",)),
        ("main = rank == 0\nmain = False\nif main:\n    meet()", ("main",)),
        ("main = rank == 0\nif main == 0:\n    meet()", ("main",)),
        ("main = rank == 0\nif args.main:\n    meet()", ("args", "main")),
        ("main = rank == 0\nimport main\nif main:\n    meet()", ("main",)),
        ("def go(main):\n    if main:\n        meet()\nmain = rank == 0", ("main",)),
        ("for main in rank:\n    if main:\n        meet()", ("main",)),
        ("model = build(rank)\nif model.training:\n    meet()", ("model", "training")),
        ("sampler = Sampler(data, rank=rank)\nif sampler:\n    meet()", ("sampler",)),
        ("n = len(shards[rank])\nif i < n:\n    meet()", ("i", "n")),
        ("a = b\nb = a\nif a:\n    meet()", ("a", "b")),
    ],
)
def test_what_is_tested_on_the_way_to_a_line(tmp_path: Path, source: str, tests: tuple[str, ...]) -> None:
    found = of_meet(tmp_path, source)
    assert found
    assert tuple(sorted(found.tests)) == tuple(sorted(tests))


def test_a_large_source_is_followed_no_further_than_a_small_one(tmp_path: Path) -> None:
    uses = " and ".join(f"b{number}" for number in range(200))
    source = "".join(f"b{number} = {uses}\n" for number in range(200))
    found = of_meet(tmp_path, f"{source}if b1:\n    meet()")
    assert found
    assert len(found.tests) == MOST_NAMES


def test_no_more_names_are_kept_than_a_person_would_read(tmp_path: Path) -> None:
    found = of_meet(
        tmp_path, f"if {' and '.join(f'name{number}' for number in range(500))} and {'x' * 500}:\n    meet()"
    )
    assert found
    assert len(found.tests) == MOST_NAMES


def test_of_a_file_that_is_too_deep_to_follow_nothing_is_known(tmp_path: Path) -> None:
    assert of_meet(tmp_path, f"if {'not ' * 1500}x:\n    meet()") is None


@pytest.mark.filterwarnings("error")
def test_nobody_is_warned_of_what_a_source_has(tmp_path: Path) -> None:
    assert of_meet(tmp_path, 'pattern = "\\d"\nfor x in y:\n    meet()') == Around(loops=("for 2",))


def test_of_a_file_that_is_not_what_runs_nothing_is_known(tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text("while (\n")
    os.utime(file, (0, 0))
    assert around(Proc(), os.getpid(), [(str(file), 1), (str(tmp_path / "none.py"), 1)]) == {}
