"""What of the tree is folded by itself, and what the user makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpmon.diagnosis.findings import ProcessView
from mpmon.tui.scene import Scene
from mpmon.tui.tables.process_rows import Rows
from mpmon.tui.tables.tree import TROUBLE, Branch, Fold, Folding, Wish, fitting, tree
from tests.builders import view
from tests.tui.fakes import FakeWatch, hung, many, with_views
from tests.tui.node_fakes import LAUNCHER, RANKS, STUCK, WORKERS, node
from tests.tui.screens import SIZES, check_golden, draw, play, settle, shows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.pilot import Pilot


WIDE = (200, 60)
CALM, HANGS = Scene(node(hung=False)), Scene(node(hung=True))


def lines(scene: Scene, room: int, **more: object) -> list[tuple[str, int, int]]:
    """Role, how many share the line, how many are folded below it."""
    out = scene.suspects | {v.pid for v in scene.views.values() if v.mood in TROUBLE}
    hangs = scene.diagnosis.verdict.value == "hung"
    found = fitting(scene.views, Folding(out=out, hung=hangs, room=room, **more))  # type: ignore[arg-type]
    return [(scene.role(b.pid), len(b.members) or 1, b.hidden) for b in found]


def test_nothing_is_folded_where_all_fits() -> None:
    assert len(lines(CALM, 41)) == 41


def test_workers_that_are_alike_share_a_line_first() -> None:
    assert lines(CALM, 40)[:3] == [("launcher", 1, 0), ("rank 0", 1, 0), ("dataloader worker 0", 4, 0)]


@pytest.mark.parametrize("role", ["rank {}", "rank ?"])
def test_ranks_are_no_leaves_though_nobody_works_for_them(role: str) -> None:
    ranks = {n: view(n, role.format(n - 2), parent=1) for n in range(2, 18)}
    found = fitting({1: view(1, "launcher")} | ranks, Folding(room=10))

    assert len(found) == 17


@pytest.mark.parametrize("name", ["process Worker-{}", "process Process-1:{}"])
def test_processes_that_their_program_numbered_share_a_line_as_workers_do(name: str) -> None:
    workers = {n: view(n, name.format(n - 1), parent=1) for n in range(2, 18)}
    found = fitting({1: view(1, "main")} | workers, Folding(room=10))
    assert [branch.members for branch in found] == [(), tuple(range(2, 18))]


def test_then_ranks_take_in_what_works_for_them() -> None:
    assert lines(CALM, 10) == [("launcher", 1, 0), *((f"rank {n}", 1, WORKERS) for n in range(8))]


def test_the_ranks_of_a_node_are_scrolled_while_nothing_is_wrong() -> None:
    assert len(lines(CALM, 3)) == 9


def test_in_a_hang_only_what_differs_keeps_its_line() -> None:
    assert lines(HANGS, 9) == [
        ("launcher", 1, 0),
        ("rank 0", 7, 28),
        ("rank 6", 1, 0),
        ("dataloader worker 0", 3, 0),
        ("dataloader worker 1", 1, 0),
    ]


def test_in_a_hang_those_who_do_something_else_are_not_alike() -> None:
    views = {
        pid: msgspec.structs.replace(view, does="writing a file") if pid == RANKS[3] else view
        for pid, view in HANGS.views.items()
    }
    found = fitting(views, Folding(hung=True, room=5, out=HANGS.suspects))
    assert Branch(RANKS[3], "├─ ", WORKERS) in found


@pytest.mark.parametrize("mood", sorted(TROUBLE))
def test_trouble_is_never_folded(mood: str) -> None:
    views = dict(CALM.views)
    views[STUCK] = msgspec.structs.replace(views[STUCK], mood=mood)
    found = fitting(views, Folding(room=5, out=frozenset({STUCK})))
    assert [(b.hidden, b.members) for b in found if b.pid == STUCK] == [(0, ())]


def test_the_user_may_want_all_or_nothing() -> None:
    assert len(lines(CALM, 5, wish=Wish.NOTHING)) == 41
    assert lines(CALM, 100, wish=Wish.ALL) == [("launcher", 1, 0), ("rank 0", 8, 32)]


def test_who_was_taken_apart_stays_so() -> None:
    apart = frozenset(RANKS)
    assert len(lines(HANGS, 9, apart=apart)) == 11
    assert len(lines(HANGS, 9, apart=apart, unfolded=frozenset({RANKS[0]}))) == 12


ROLES = st.sampled_from(["rank {}", "dataloader worker {}", "resource tracker", "process Producer-{}"])


@st.composite
def families(draw: st.DrawFn) -> Mapping[int, ProcessView]:
    """Processes below each other in any way, in circles too."""
    count = draw(st.integers(1, 14))
    return {
        pid: view(
            pid,
            draw(ROLES).format(pid),
            parent=draw(st.one_of(st.none(), st.integers(1, count + 1))),
            mood=draw(st.sampled_from(["idle", "waiting", "dead"])),
        )
        for pid in range(1, count + 1)
    }


@given(families(), st.sampled_from(Fold), st.booleans(), st.frozensets(st.integers(1, 14)), st.data())
def test_everybody_is_drawn_once_or_counted_once(
    views: Mapping[int, ProcessView], fold: Fold, hangs: bool, out: frozenset[int], data: st.DataObject
) -> None:
    some = st.frozensets(st.sampled_from(sorted(views)))
    folding = Folding(
        hung=hangs, out=out & views.keys(), folded=data.draw(some), unfolded=data.draw(some), apart=data.draw(some)
    )
    found = tree(views, folding, fold)
    drawn = [pid for branch in found for pid in branch.members or (branch.pid,)]
    assert len(set(drawn)) == len(drawn)
    assert len(drawn) + sum(branch.hidden for branch in found) == len(views)


@given(families(), st.sampled_from(Fold), st.booleans(), st.data())
def test_who_stands_out_is_drawn_alone(
    views: Mapping[int, ProcessView], fold: Fold, hangs: bool, data: st.DataObject
) -> None:
    out = data.draw(st.frozensets(st.sampled_from(sorted(views))))
    alone = {branch.pid for branch in tree(views, Folding(hung=hangs, out=out), fold) if not branch.members}
    assert out <= alone


# On the screen


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["hung", "calm"])
def test_a_node_of_eight_ranks(name: str, size: str) -> None:
    check_golden(f"node-{name}-{size}", draw(node(hung=name == "hung"), SIZES[size]))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("page", "key"), [("why", "w"), ("groups", "S")])
def test_a_page_of_a_node(page: str, key: str, size: str) -> None:
    check_golden(f"node-{page}-{size}", draw(node(hung=True), SIZES[size], key))


def test_plus_takes_a_line_apart_and_minus_puts_it_together() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("home", "down", "plus")
        await settle(pilot, lambda: shows(pilot, "41 in 11 lines", "rank 0 +4", "rank 1 +4"))
        await pilot.press("plus")
        await settle(pilot, lambda: shows(pilot, "41 in 12 lines", "dataloade… 0–3"))
        await pilot.press("minus")
        await settle(pilot, lambda: shows(pilot, "rank 0 +4", "rank 1 +4"))
        await pilot.press("minus")
        await settle(pilot, lambda: shows(pilot, "41 in 5 lines", "rank 0–5,7 +28"))

    play(FakeWatch(node(hung=True)), script, first="41 in 5 lines")


def test_asterisk_shows_everything_and_then_what_fits() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("asterisk")
        await settle(pilot, lambda: shows(pilot, "processes 41 ─"))
        await pilot.press("asterisk")
        await settle(pilot, lambda: shows(pilot, "41 in 5 lines"))

    play(FakeWatch(node(hung=True)), script, first="41 in 5 lines")


def test_asterisk_folds_what_can_be_where_all_fits() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("asterisk")
        await settle(pilot, lambda: shows(pilot, "6 in 4 lines", "0,2–3"))
        await pilot.press("asterisk")
        await settle(pilot, lambda: shows(pilot, "processes 6 ─"))

    play(FakeWatch(hung()), script, first="processes 6")


def test_a_filter_looks_into_what_is_folded() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("slash", *"6034", "enter")
        await settle(pilot, lambda: shows(pilot, "6034", "filter 6034"))

    play(FakeWatch(node(hung=True)), script, first="41 in 5 lines")


def test_the_line_of_several_is_one_selection() -> None:
    """The first of them is selected, and stays so when its line is taken apart."""
    watch = FakeWatch(node(hung=True))

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("home", "down")
        await settle(pilot, lambda: shows(pilot, f"stack rank 0 ({RANKS[0]})"))
        await pilot.press("asterisk")
        await settle(pilot, lambda: shows(pilot, "processes 41 ─", f"stack rank 0 ({RANKS[0]})"))

    play(watch, script, first="41 in 5 lines")
    assert watch.asked[-2] == ("attend", RANKS[0])


def test_one_selected_that_is_folded_away_is_at_the_line_that_has_it() -> None:
    watch = FakeWatch(node(hung=True))

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("asterisk", "home", *["down"] * 6)
        await settle(pilot, lambda: shows(pilot, f"stack rank 1 ({RANKS[1]})"))
        await pilot.press("asterisk")
        await settle(pilot, lambda: shows(pilot, "41 in 5 lines", f"stack rank 1 ({RANKS[1]})"))
        await pilot.press("up")
        await settle(pilot, lambda: shows(pilot, f"stack launcher ({LAUNCHER})"))

    play(watch, script, first="41 in 5 lines")


def test_more_room_unfolds() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.resize_terminal(200, 60)
        await settle(pilot, lambda: shows(pilot, "processes 41 ─"))
        await pilot.resize_terminal(80, 24)
        await settle(pilot, lambda: shows(pilot, "41 in 9 lines"))

    play(FakeWatch(node(hung=False)), script, first="41 in 9 lines")


def test_numbers_of_a_line_are_unknown_unless_every_part_is_known() -> None:
    job = many(3)
    unknown = msgspec.structs.replace(job.diagnosis.processes[1], cpu_percent=None)
    views = (job.diagnosis.processes[0], unknown, job.diagnosis.processes[2])
    changed = with_views(job, *views)

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("asterisk")
        await settle(pilot, lambda: shows(pilot, "×2 idle           –  600M"))

    play(FakeWatch(changed), script, first="processes 3")


def test_percents_of_a_line_are_a_range() -> None:
    found = {row.role: (row.cpu_least, row.cpu) for row in Rows().of(CALM, tree(CALM.views, Folding(), Fold.LEAVES))}

    assert found["dataloader worker 0–3"] == (0, 60)
    assert found["rank 0"] == (None, 97)
