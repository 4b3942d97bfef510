"""The screen of a job on thousands of machines: classes of ranks, and what is known of the machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from mpmon.model import Elsewhere, Figures, Node
from mpmon.tui.describe.hosts import hosts, in_full, unseen
from mpmon.tui.line import text_of, text_of_lines
from mpmon.tui.panels.processes import ProcessesPanel
from mpmon.tui.scene import Scene
from mpmon.tui.screens.main import MainScreen
from mpmon.tui.tables.host_rows import host_rows, line
from mpmon.tui.tables.process_columns import line as process_line
from mpmon.tui.tables.process_columns import plan
from mpmon.tui.tables.process_list import ProcessList
from mpmon.tui.tables.rank_classes import is_class
from tests.nodes.recorded import last, recordings
from tests.nodes.test_many import watched
from tests.tui.fakes import NOW, FakeWatch, with_tables
from tests.tui.node_fakes import node
from tests.tui.screens import draw, play, settle, shows

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from mpmon.diagnosis.findings import Observation

NODES = 4000
CULPRIT = NODES // 2 + 7

MOVING = Elsewhere(ranks=((8, 7999),), does="which make progress", hosts="n[4-3999]", machines=3996)


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

    assert "7998 more ranks reported" in text
    assert f"dataloader worker 0 of rank {CULPRIT * 2 + 1} (pid 19 on n{CULPRIT})" in text
    assert "1 host queried" in text


def test_the_page_of_hosts_has_commands_and_folds_who_was_not_asked(large: Observation) -> None:
    text = text_of_lines(hosts(Scene(large), 80))

    assert text.splitlines()[0] == f"n{CULPRIT}"
    assert f"  ssh n{CULPRIT}\n" in text
    assert f"n[0-{CULPRIT - 1},{CULPRIT + 1}-{NODES - 1}]" in text
    assert f"rank {CULPRIT * 2} represents them" in text


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
    listed.filter = "make progress"
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

    play(FakeWatch(with_moving()), script, size=(120, 40), first="rank")


# Machines


def numbered(count: int) -> tuple[Node, ...]:
    """One whose processes are at hand, then those of which there is a word each."""
    others = (
        Node(
            host=f"n{at}",
            number=at,
            ranks=((2 * at, 2 * at + 1),),
            state="fresh",
            heard_at=NOW - 1,
            version="1",
            rights="",
        )
        for at in range(1, count)
    )
    return (Node(host="n0", number=0, taken_at=NOW, state="fresh", heard_at=NOW), *others)


def test_enter_on_a_class_leads_to_its_machines_and_into_the_one_that_is_chosen() -> None:
    watch = FakeWatch(with_moving(*numbered(8)))

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("end", "enter")
        await settle(pilot, lambda: shows(pilot, "hosts 8 machines", "ranks 8-9", "not queried (Enter)"))
        await pilot.press("down")
        await settle(pilot, lambda: shows(pilot, "ranks 10-11"))
        await pilot.press("enter")
        await settle(pilot, lambda: shows(pilot, "on n5 (Esc: all hosts)", "n5", "its processes were queried"))
        assert ("enter", "n5") in watch.asked
        await pilot.press("enter")
        await settle(pilot, lambda: shows(pilot, "hosts 8 machines", "ranks 10-11"))
        await pilot.press("escape", "escape")
        await settle(pilot, lambda: shows(pilot, "rank 8–7999"))
        assert watch.asked[-2:].count(("enter", "")) == 1

    play(watch, script, size=(120, 40), first="rank")


def test_enter_on_a_class_of_one_machine_goes_right_into_it() -> None:
    alone = Elsewhere(ranks=((14, 15),), does="which make progress", hosts="n7", machines=1)
    watch = FakeWatch(with_tables(node(hung=True), elsewhere=(alone,), nodes=numbered(8)))

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("end", "enter")
        await settle(pilot, lambda: shows(pilot, "on n7 (Esc: all hosts)"))

    play(watch, script, size=(80, 24), first="rank")


def test_a_machine_that_was_entered_lists_its_processes_as_on_one_machine() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("H", "down")
        await settle(pilot, lambda: shows(pilot, "hosts 3 machines", "ranks 0-1 · 6 processes"))
        await pilot.press("enter")
        await settle(pilot, lambda: shows(pilot, "processes 6 on h1 (Esc: all hosts)"))
        panel = pilot.app.screen_stack[0].query_exactly_one(ProcessesPanel)
        assert {
            panel.scene and panel.scene.hosts.name(pid) for row in panel.rows for pid in row.members or (row.pid,)
        } == {"h1"}
        assert not shows(pilot, " on host")
        await pilot.press("escape")
        await settle(pilot, lambda: shows(pilot, "processes 1"))
        assert len({row.host for row in panel.rows}) > 1

    play(FakeWatch(last(*recordings("worker")), live=False), script, size=(120, 40), first="rank")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (Node(host="n1", number=1, state="late", heard_at=NOW - 4), "late 4 s"),
        (
            Node(host="n1", number=1, state="unreachable", heard_at=NOW - 70, problem="is cut off"),
            "unreachable 1 min",
        ),
        (Node(host="n1", number=1, state="fresh", heard_at=NOW, rights="Yama forbids"), "partial"),
        (Node(host="n1", number=1, state="unreachable", version="0.1", problem="has mpmon 0.1"), "mpmon 0.1"),
        (Node(host="n1", number=1, state="fresh", heard_at=NOW, offset_s=90.0), "clock 1 min 30 s ahead"),
    ],
)
def test_the_line_of_a_machine_tells_how_it_is(row: Node, words: str) -> None:
    scene = Scene(with_tables(node(hung=True), nodes=(*numbered(1), row)))
    (found,) = [each for each in host_rows(scene) if each.host == "n1"]
    assert words in text_of(line(found, 120))


def test_what_is_shown_of_a_machine_whose_agent_is_late_is_grey_and_it_is_named() -> None:
    seen = last(*recordings("worker"))
    told_at = seen.snapshot.taken_at + 5
    nodes = tuple(
        structs.replace(row, state="late", heard_at=told_at - 4) if row.host == "h1" else row for row in seen.snapshot.nodes
    )  # fmt: skip
    late = structs.replace(with_tables(seen, nodes=nodes), told_at=told_at)
    listed = ProcessList()

    before = {row.pid: row.late for row in listed.rows(Scene(seen), 0)}
    rows = listed.rows(scene := Scene(late), 0)
    columns = plan(200, 30, gpus=False, hosts=True)
    assert not any(before.values())
    assert {row.host for row in rows if row.late} == {"h1"}
    assert all({style for _, style in process_line(row, columns)} == {"dim"} for row in rows if row.late)
    assert [row.agent for row in host_rows(scene) if row.host == "h1"] == ["late 4 s"]
    assert "nothing heard of h1 for 4 s" in draw(late, (120, 40), first="rank")


def test_what_a_machine_says_of_itself_is_told_with_what_differs() -> None:
    figures = [Figures(host=f"n{at}", over_s=30.0, load_per_cpu=0.5, steal_percent=38.0 * (at == 2)) for at in range(4)]
    scene = Scene(with_tables(node(hung=True), nodes=numbered(4), figures=tuple(figures)))
    rows = {row.host: row for row in host_rows(scene)}
    text = text_of_lines(in_full(scene, "n2", 120))

    assert (rows["n2"].load, "38 % of its CPU time" in rows["n2"].notes) == ("0.5", True)
    assert "CPU time" not in rows["n1"].notes
    assert "load 0.50 per CPU · 38.0 % of CPU time stolen · over 30 s" in text
    assert "its agent: fresh, mpmon 1 · full rights" in text


SILENT = Node(host="n3", number=3, problem="does not answer; ranks 6-7 run there")


def test_what_could_not_be_seen_is_told_below_the_finding() -> None:
    few, more = with_moving(SILENT), with_moving(SILENT, structs.replace(SILENT, host="n4", number=4))

    assert unseen(Scene(node(hung=True))) == ""
    assert unseen(Scene(few)) == "not seen: n3 (does not answer; ranks 6-7 run there)"
    assert unseen(Scene(more)).endswith(" and 1 more (H)")
    assert "not seen: n3 (does not answer; ranks 6-7 run there)" in draw(few, (80, 24), first="rank")


def test_one_machine_has_no_page_of_hosts() -> None:
    assert text_of_lines(hosts(Scene(node(hung=True)), 80)).strip() == "this job is watched on one machine"
