"""The screen of a job on thousands of machines: classes of ranks, and what is known of the machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from mpmon.model import Elsewhere, Node
from mpmon.tui.describe.hosts import hosts, unseen
from mpmon.tui.line import text_of_lines
from mpmon.tui.scene import Scene
from mpmon.tui.screens.main import MainScreen
from mpmon.tui.tables.process_list import ProcessList
from mpmon.tui.tables.rank_classes import is_class
from tests.nodes.test_many import watched
from tests.tui.fakes import FakeWatch, with_tables
from tests.tui.node_fakes import node
from tests.tui.screens import draw, play, settle, shows

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from mpmon.diagnosis.findings import Observation

NODES = 4000
CULPRIT = NODES // 2 + 7

MOVING = Elsewhere(ranks=((8, 7999),), does="which get on", hosts="n[4-3999]", machines=3996)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Observation:
    seen, _ = watched(monkeypatch, "worker", NODES)
    return seen[-1]


def test_ranks_that_stand_alike_share_the_line_of_the_one_that_was_asked(large: Observation) -> None:
    rows = ProcessList().rows(Scene(large), 0)

    assert len(rows) < 10
    (alike,) = [row for row in rows if row.stands_for]
    assert (alike.role, alike.host) == ("rank 0–4014,4016–7999", "4000 hosts")
    assert (alike.sharers, alike.cpu, alike.rss) == (7999, None, None)
    assert [row.role for row in rows if row.suspect] == ["dataloader worker 0"]


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_the_screen_names_the_class_and_the_culprit(large: Observation, size: tuple[int, int]) -> None:
    text = draw(large, size, first="rank")

    assert "7998 more ranks as they say" in text
    assert f"(pid 19 on n{CULPRIT}, of rank {CULPRIT * 2 + 1})" in text
    assert "1 host asked" in text


def test_the_page_of_hosts_has_commands_and_folds_who_was_not_asked(large: Observation) -> None:
    text = text_of_lines(hosts(Scene(large), 80))

    assert text.splitlines()[0] == f"n{CULPRIT}"
    assert f"  ssh n{CULPRIT}\n" in text
    assert f"n[0-{CULPRIT - 1},{CULPRIT + 1}-{NODES - 1}]" in text
    assert f"rank {CULPRIT * 2} stands for them" in text


def with_moving(*nodes: Node) -> Observation:
    return with_tables(node(hung=True), elsewhere=(MOVING,), nodes=nodes or (Node(host="n0", number=0),))


def test_a_class_for_which_nobody_stands_has_a_line_of_its_own() -> None:
    listed = ProcessList()
    scene = Scene(with_moving())
    last = listed.rows(scene, 0)[-1]
    listed.filter = "rank 3"

    assert (last.role, last.host, last.sharers, last.mood) == ("rank 8–7999", "3996 hosts", 7992, "working")
    assert is_class(last)
    assert not any(is_class(row) for row in listed.rows(scene, 0))
    listed.filter = "get on"
    assert [row.role for row in listed.rows(scene, 0)] == ["rank 8–7999"]


def test_a_cursor_on_a_class_selects_nobody_and_stays() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("end", "space", "r")
        await settle(pilot, lambda: shows(pilot, "rank 8–7999"))
        main = pilot.app.screen
        assert isinstance(main, MainScreen)
        assert main.selected in Scene(with_moving()).views
        panel = main.processes
        assert is_class(panel.rows[panel.cursor])
        assert panel.chosen() == ()
        panel.repaint()
        assert is_class(panel.rows[panel.cursor])
        await pilot.press("enter")
        await settle(pilot, lambda: shows(pilot, "n[4-3999]"))

    play(FakeWatch(with_moving()), script, size=(120, 40), first="rank")


SILENT = Node(host="n3", number=3, problem="does not answer; ranks 6-7 run there")


def test_what_could_not_be_seen_is_told_below_the_finding() -> None:
    few, more = with_moving(SILENT), with_moving(SILENT, structs.replace(SILENT, host="n4", number=4))

    assert unseen(Scene(node(hung=True))) == ""
    assert unseen(Scene(few)) == "not seen: n3 (does not answer; ranks 6-7 run there)"
    assert unseen(Scene(more)).endswith(" and 1 more (H)")
    assert "not seen: n3 (does not answer; ranks 6-7 run there)" in draw(few, (80, 24), first="rank")


def test_one_machine_has_no_page_of_hosts() -> None:
    assert text_of_lines(hosts(Scene(node(hung=True)), 80)).strip() == "this job is watched on one machine"
