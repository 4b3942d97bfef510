"""Every key is in the help, and every action in the palette."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mpmon.tui.describe.help import NOTATION, help_lines
from mpmon.tui.keys import APP_KEYS, ENVIRONMENT_KEYS, MAIN_KEYS, PAGE_KEYS, SIGNAL_KEYS, Key
from mpmon.tui.line import cells, text_of
from tests.sleepers import row, sleeper
from tests.tui.fakes import FakeWatch, hung
from tests.tui.screens import SIZES, check_golden, play, screen_text_of, settle
from tests.tui.test_signals import job

if TYPE_CHECKING:
    from textual.pilot import Pilot


@pytest.mark.parametrize("width", [80, 120, 200])
def test_help_lists_every_key_and_fits(width: int) -> None:
    lines = help_lines(width)
    said = " ".join(text_of(line) for line in lines)
    for key in (*APP_KEYS, *MAIN_KEYS, *PAGE_KEYS, *ENVIRONMENT_KEYS, *SIGNAL_KEYS):
        assert key.shown in said
        assert " ".join(key.help.split()[:2]) in " ".join(said.split())
    assert all(cells(line) <= width for line in lines)


def test_help_explains_what_is_not_said_in_words() -> None:
    lines = [text_of(line) for line in help_lines(120)]
    about = lines[lines.index("notation") + 1 :]
    assert [line.split("  ")[1] for line in about if not line.startswith("    ")] == [sign for sign, _ in NOTATION]


@pytest.mark.parametrize(
    ("press", "keys"),
    [
        ((), MAIN_KEYS),
        (("w",), PAGE_KEYS),
        (("e",), (*PAGE_KEYS, *ENVIRONMENT_KEYS)),
        (("k",), SIGNAL_KEYS),
    ],
)
def test_the_palette_has_every_action_of_the_screen(press: tuple[str, ...], keys: tuple[Key, ...]) -> None:
    found: set[str] = set()

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press(*press)
        await settle(pilot)
        found.update(command.title for command in pilot.app.get_system_commands(pilot.app.screen))

    play(FakeWatch(hung()), script, first="4121", send=lambda number, processes: ())
    assert {key.help for key in (*APP_KEYS, *keys) if not key.always} <= found


@pytest.mark.parametrize("size", SIZES)
def test_the_dialog_of_signals(size: str) -> None:
    drawn: list[str] = []

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("home", "c", "k")
        await settle(pilot, lambda: "which signal" in screen_text_of(pilot))
        drawn.append(screen_text_of(pilot))
        await pilot.press("down", "down", "down", "enter")
        await settle(pilot, lambda: "send SIGKILL?" in screen_text_of(pilot))
        drawn.append(screen_text_of(pilot))

    play(FakeWatch(hung()), script, size=SIZES[size], first="4121", send=lambda number, processes: ())
    check_golden(f"signals-{size}", drawn[0])
    check_golden(f"signals-confirm-{size}", drawn[1])


def test_an_action_of_the_palette_does_what_its_key_does() -> None:
    with sleeper() as child:
        live = job(row(child.pid))

        async def script(pilot: Pilot[int]) -> None:
            commands = {c.title: c.callback for c in pilot.app.get_system_commands(pilot.app.screen)}
            wanted = next(key.help for key in MAIN_KEYS if key.action == "signals")
            pilot.app.call_later(commands[wanted])
            await settle(pilot, lambda: "which signal" in screen_text_of(pilot))

        play(FakeWatch(live), script, first="rank 0", send=lambda number, processes: ())
