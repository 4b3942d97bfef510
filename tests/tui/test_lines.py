"""The line widget paints what changed and nothing else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from textual.app import App

from mpmon.tui.line import Line, plain
from mpmon.tui.widgets.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult


class Numbers(Lines[int]):
    """Notes which rows were drawn."""

    HAS_CURSOR = True

    def __init__(self) -> None:
        super().__init__()
        self.drawn: list[int] = []

    def draw_row(self, row: int, width: int) -> Line:
        del width
        self.drawn.append(row)
        return plain(f"row {row}")


class NumbersApp(App[None]):
    """Nothing but the widget, ten lines high."""

    CSS = "Numbers { height: 10; }"

    def __init__(self) -> None:
        super().__init__()
        self.numbers = Numbers()

    def compose(self) -> ComposeResult:
        yield self.numbers


def run_steps(*steps: Callable[[Numbers], object]) -> list[list[int]]:
    """Which rows each step drew."""
    drawn: list[list[int]] = []

    async def session() -> None:
        app = NumbersApp()
        async with app.run_test(size=(40, 10)) as pilot:
            for step in steps:
                app.numbers.drawn.clear()
                step(app.numbers)
                await pilot.pause()
                drawn.append(sorted(set(app.numbers.drawn)))

    asyncio.run(session())
    return drawn


def test_only_rows_in_view_are_drawn() -> None:
    (drawn,) = run_steps(lambda w: w.show_rows(range(1000)))

    assert drawn == list(range(10))


def test_only_changed_rows_are_drawn_again() -> None:
    rows = list(range(100))
    other = [*rows[:3], 1003, *rows[4:50], 1050, *rows[51:]]

    _, same, changed = run_steps(
        lambda w: w.show_rows(rows), lambda w: w.show_rows(list(rows)), lambda w: w.show_rows(other)
    )

    assert same == []
    assert changed == [1003]


def test_moving_the_cursor_draws_two_rows() -> None:
    _, moved = run_steps(lambda w: w.show_rows(range(100)), lambda w: w.move_cursor(4))

    assert moved == [0, 4]


def test_the_cursor_is_kept_in_view_and_in_range() -> None:
    places: list[tuple[int, int, tuple[int, int]]] = []

    def note(widget: Numbers) -> None:
        places.append((widget.cursor, int(widget.scroll_offset.y), widget.view_range))

    run_steps(
        lambda w: w.show_rows(range(100)),
        lambda w: w.action_scroll_end(),
        note,
        lambda w: w.action_page_up(),
        note,
        lambda w: w.show_rows(range(5)),
        note,
    )

    assert places[0] == (99, 90, (91, 100))
    assert places[1][0] == 90
    assert places[2] == (4, 0, (1, 5))
