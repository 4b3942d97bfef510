"""Rows that are kept from scene to scene are those that would be made anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from mpmon.tui.line import text_of
from mpmon.tui.scene import Scene
from mpmon.tui.tables.brief import SHORT, brief
from mpmon.tui.tables.process_columns import Plan, line
from mpmon.tui.tables.process_rows import Row, Rows
from mpmon.tui.tables.tree import Fold, Folding, tree
from tests.tui.fakes import with_tables, with_views
from tests.tui.node_fakes import RANKS, node

if TYPE_CHECKING:
    from mpmon.diagnosis.findings import Observation, ProcessView
    from mpmon.model import Process

MIB = 1 << 20


def later(now: Observation, seconds: float = 1.0) -> Observation:
    """The same picture some time later."""
    return with_tables(now, taken_at=now.snapshot.taken_at + seconds)


def with_row(now: Observation, pid: int, **more: object) -> Observation:
    rows: list[Process] = list(now.snapshot.processes)
    at = next(at for at, row in enumerate(rows) if row.pid == pid)
    rows[at] = msgspec.structs.replace(rows[at], **more)
    return with_tables(now, processes=tuple(rows))


def with_view(now: Observation, pid: int, **more: object) -> Observation:
    views: list[ProcessView] = list(now.diagnosis.processes)
    at = next(at for at, row in enumerate(views) if row.pid == pid)
    views[at] = msgspec.structs.replace(views[at], **more)
    return with_views(now, *views)


def rows(made: Rows, now: Observation, fold: Fold) -> list[Row]:
    scene = Scene(now)
    return made.of(scene, tree(scene.views, Folding(hung=scene.diagnosis.verdict.value == "hung"), fold))


def pictures() -> list[Observation]:
    """A node that trains, changes of which each shows somewhere, and one that hangs."""
    worker = RANKS[2] + 1
    first = node(hung=False)
    busy = with_view(later(first), worker, cpu_percent=90.0, mood="working")
    large = with_row(later(busy), worker, rss_bytes=900 * MIB)
    renamed = with_view(later(large), worker, role="dataloader worker 77")
    still = with_view(later(renamed), worker, mood="idle", still_since=renamed.snapshot.taken_at)
    hangs = node(hung=True)
    return [
        first,
        later(first),
        busy,
        large,
        renamed,
        still,
        later(still, 65),
        hangs,
        later(hangs),
        later(hangs, 30),
        first,
    ]


def test_kept_rows_are_the_rows_of_now() -> None:
    for fold in Fold:
        kept = Rows()
        for now in pictures():
            assert rows(kept, now, fold) == rows(Rows(), now, fold)


def shown(does: str, room: int, *, slowest: bool = False) -> str:
    """The line of a process in a list without columns, whose last part has so much room."""
    row = Row(
        pid=7, role="rank 2", prefix="", hidden=0, suspect=False, mood="", does=does, cpu=None, rss=None, still_s=None,
        slowest=slowest,
    )  # fmt: skip
    return text_of(line(row, Plan((), 12, room))).rstrip()


@pytest.mark.parametrize(
    ("room", "said"),
    [
        (60, "asleep in download() at dataset.py:88, 24 h to go"),
        (40, "asleep in download() at dataset.py:88"),
        (30, "asleep at dataset.py:88"),
        (23, "asleep at dataset.py:88"),
        (22, "asleep in download() …"),
    ],
)
def test_what_a_process_does_keeps_its_file_and_line_before_all_else(room: int, said: str) -> None:
    assert shown("asleep in download() at dataset.py:88, 24 h to go", room).split("  ")[-1].strip() == said


def test_that_it_waits_gives_way_to_what_it_waits_for() -> None:
    assert shown("waiting for all_reduce in main() at train.py:50", 26).endswith(" all_reduce at train.py:50")


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("a multiprocessing lock in work() at loader.py:10", "mp lock at loader.py:10"),
        ("the result of a pool task in main() at pool.py:9", "pool result at pool.py:9"),
        ("waiting for a child to exit in main() at job.py:31", "child exit at job.py:31"),
        ("waiting for a lock in main() at loader.py:10", "a lock at loader.py:10"),
        ("a lock (Lock) held by thread writer in main() at job.py:9", "lock (Lock) h… at job.py:9"),
        ("children to exit in Thread._wait_for_tstate_lock() at threading.py:113", "child… at threading.py:113"),
        ("threads to end in Pool._terminate_pool() at concurrent.py:1139", "thread ends in Pool._term…"),
        ("data from a pipe that nobody writes to", "pipe data that nobody wri…"),
    ],
)
def test_the_kind_of_wait_is_told_in_few_words_where_there_is_little_room(does: str, said: str) -> None:
    assert shown(does, 26).endswith(f" {said}")


@pytest.mark.parametrize(("long", "short"), SHORT)
def test_few_words_are_fewer_and_no_earlier_ones_hide_them(long: str, short: str) -> None:
    assert len(short) < len(long)
    assert brief(f"waiting for a {long}", len(long) - 1).startswith(short)


def test_the_rank_that_the_others_wait_for_is_marked() -> None:
    assert shown("asleep", 20, slowest=True).startswith("› rank 2")
    assert shown("asleep", 20).startswith("  rank 2")
