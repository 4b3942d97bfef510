"""What the mouse does: it clicks keys and headings, and its wheel scrolls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.events import MouseScrollDown

from mpmon.tui.keys import Label
from mpmon.tui.panels.processes import ProcessesPanel
from mpmon.tui.widgets.bars import KeyBar, label_at
from tests.tui.fakes import FakeWatch, hung, many
from tests.tui.screens import LARGE, play, screen_text_of, settle, shows

if TYPE_CHECKING:
    from textual.pilot import Pilot

KEYS = (Label("q", "quit", "app.quit"), Label("Enter", "open", "screen.details"), Label("w", "why", "screen.why"))


async def click_word(pilot: Pilot[int], word: str) -> None:
    """Clicks where the screen shows a word."""
    lines = screen_text_of(pilot).splitlines()
    y = next(n for n, line in enumerate(lines) if word in line)
    await pilot.click(offset=(lines[y].index(word), y))


def test_the_key_under_the_mouse() -> None:
    assert label_at(KEYS, 0, 80) is KEYS[0]
    assert label_at(KEYS, 5, 80) is KEYS[0]
    assert label_at(KEYS, 6, 80) is None
    assert label_at(KEYS, 8, 80) is KEYS[1]
    assert label_at(KEYS, 20, 80) is KEYS[2]
    assert label_at(KEYS, 70, 80) is None


def test_a_key_that_is_not_drawn_whole_is_not_there() -> None:
    assert label_at(KEYS, 20, 22) is None


def test_a_click_on_a_key_does_what_the_key_does() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await click_word(pilot, "w why")
        await settle(pilot, lambda: shows(pilot, "what to do"))
        await click_word(pilot, "Esc back")
        await settle(pilot, lambda: shows(pilot, "processes 6"))
        await click_word(pilot, "p pause")
        await settle(pilot, lambda: shows(pilot, "[paused]"))
        await click_word(pilot, "q quit")

    app = play(FakeWatch(hung()), script, first="4121")
    assert app.return_code == 0


def test_a_click_on_a_key_is_no_letter_for_the_filter() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("slash")
        await settle(pilot, lambda: shows(pilot, "filter: role, pid"))
        await click_word(pilot, "h help")
        await settle(pilot, lambda: shows(pilot, "everywhere"))

    play(FakeWatch(hung()), script, first="4121")


def test_a_notice_covers_the_keys() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("r")
        await settle(pilot, lambda: shows(pilot, "refreshing everything now"))
        await pilot.click(KeyBar, offset=(1, 0))
        await settle(pilot)

    app = play(FakeWatch(hung()), script, first="4121")
    assert app.return_value is None


def test_a_click_on_a_heading_sorts_and_a_second_one_inverts() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await click_word(pilot, "rss  still")
        await settle(pilot, lambda: shows(pilot, "6 · by rss ─"))
        await click_word(pilot, "rss  still")
        await settle(pilot, lambda: shows(pilot, "by rss, inverted"))
        await click_word(pilot, "state  ")
        await settle(pilot, lambda: shows(pilot, "by state ─"))
        assert [row.mood for row in pilot.app.screen.query_one(ProcessesPanel).rows[:2]] == ["suspect", "waiting"]
        await click_word(pilot, "process   ")
        await settle(pilot, lambda: shows(pilot, "by role ─"))

    play(FakeWatch(hung()), script, size=LARGE, first="4121")


def test_a_click_selects_a_process() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await click_word(pilot, "4123")
        await settle(pilot, lambda: shows(pilot, "stack dataloader worker 3 (4123)"))

    play(FakeWatch(hung()), script, first="4121")


def test_the_wheel_scrolls_and_selects_nobody() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("asterisk")
        await settle(pilot, lambda: shows(pilot, "of 100"))
        panel = pilot.app.screen.query_one(ProcessesPanel)
        before = panel.cursor
        for _ in range(5):
            panel.post_message(MouseScrollDown(panel, 5, 5, 0, 1, 0, False, False, False))
        await settle(pilot, lambda: panel.scroll_offset.y > 3)
        assert panel.cursor == before

    play(FakeWatch(many(100)), script, first="5000")
