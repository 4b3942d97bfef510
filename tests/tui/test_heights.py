"""How the panels share the lines of the screen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpmon.tui.screens.heights import (
    DETAILS_MIN,
    EVENTS_MAX,
    PANEL_MIN,
    PROCESSES_MIN,
    STACK_COMFORTABLE,
    Wants,
    finding_lines,
    heights,
    sides,
)

LINES = st.integers(0, 60)


@st.composite
def wishes(draw: st.DrawFn) -> Wants:
    queues = draw(LINES)
    return Wants(draw(LINES), draw(LINES), queues, draw(st.integers(0, min(queues, 4))), draw(LINES))


@given(st.integers(0, 80), wishes(), st.booleans())
def test_panels_in_one_column_share_all_the_room_and_no_more(room: int, wants: Wants, calm: bool) -> None:
    found = heights(room, wants, calm=calm)

    assert sum(found) == room
    assert min(found) >= 0
    assert found.gpus <= wants.gpus
    assert found.queues <= max(wants.queues, wants.pressing)
    assert found.events <= min(wants.events, EVENTS_MAX)


@given(st.integers(0, 80), wishes(), st.booleans())
def test_panels_in_two_columns_share_all_the_room_and_no_more(room: int, wants: Wants, calm: bool) -> None:
    found = sides(room, wants, calm=calm)

    assert found.gpus + found.processes + found.queues == room
    assert found.gpus + found.stack + found.details + found.events == room
    assert min(found) >= 0
    assert found.events <= min(wants.events, EVENTS_MAX)


@given(st.integers(0, 80), wishes(), st.booleans())
def test_queues_that_do_not_matter_take_no_line_from_gpus_and_processes(room: int, wants: Wants, calm: bool) -> None:
    calm_queues = wants._replace(pressing=0)
    without = heights(room, calm_queues._replace(queues=0, events=0), calm=calm)
    found = heights(room, calm_queues, calm=calm)

    assert (found.gpus, found.processes) == (without.gpus, without.processes)


@given(st.integers(0, 80), wishes(), st.booleans())
def test_queues_that_matter_leave_the_processes_some_lines(room: int, wants: Wants, calm: bool) -> None:
    found = heights(room, wants, calm=calm)
    without = heights(room, wants._replace(pressing=0, queues=0, events=0), calm=calm)

    assert found.processes >= min(PROCESSES_MIN, without.processes)


@pytest.mark.parametrize(
    ("room", "wants", "said"),
    [
        (16, Wants(processes=8, queues=6, events=9), (0, 8, 0, 8, 0, 0)),
        (16, Wants(processes=8, queues=6, pressing=2, events=9), (0, 7, 2, 7, 0, 0)),
        (32, Wants(processes=8, queues=6, events=9), (0, 8, 6, 12, 0, 6)),
        (57, Wants(gpus=10, processes=11, queues=6, events=9), (10, 11, 6, 21, 0, 9)),
    ],
)
def test_in_a_hang_the_stack_comes_before_queues_and_events(room: int, wants: Wants, said: tuple[int, ...]) -> None:
    assert tuple(heights(room, wants, calm=False)) == said


@given(st.integers(0, 80), wishes(), st.integers(0, 20), st.booleans(), st.booleans())
def test_the_finding_has_its_least_and_what_the_others_do_not_need(
    room: int, wants: Wants, finding: int, wide: bool, calm: bool
) -> None:
    wants = wants._replace(finding=finding, finding_least=7)
    found = finding_lines(room, wants, wide=wide, calm=calm)

    assert min(room, finding, 7) <= found <= min(room, finding)
    assert found <= finding_lines(room + 1, wants, wide=wide, calm=calm)
    assert found >= finding_lines(room, wants._replace(processes=wants.processes + 1), wide=wide, calm=calm)


def test_a_small_screen_tells_what_to_do_of_a_small_job_and_keeps_the_stack() -> None:
    wants = Wants(processes=5, finding=11, finding_least=7)
    lines = finding_lines(22, wants, wide=False, calm=False)

    assert (lines, heights(22 - lines, wants, calm=False).stack) == (10, 7)


def test_a_panel_of_too_few_lines_is_left_out() -> None:
    wants = Wants(processes=8, queues=6, events=9)
    found = [heights(room, wants, calm=False) for room in range(10, 60)]

    assert {lines for each in found for lines in (each.queues, each.events)}.isdisjoint(range(1, PANEL_MIN))


def test_side_by_side_queues_have_what_the_processes_leave_but_not_less_than_a_quarter() -> None:
    assert sides(40, Wants(processes=10, queues=8), calm=True)[1:3] == (10, 30)
    assert sides(40, Wants(processes=60, queues=30), calm=True)[1:3] == (30, 10)


@given(st.integers(0, 80), wishes(), st.booleans())
def test_details_stay_where_they_are_whatever_the_stack_has(room: int, wants: Wants, calm: bool) -> None:
    found = sides(room, wants, calm=calm)

    assert found.details == 0 or (calm and found.stack == STACK_COMFORTABLE and found.details >= DETAILS_MIN)
