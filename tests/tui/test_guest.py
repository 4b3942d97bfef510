"""Whoever looks through `mpmon serve` may only look: no signals, no files, no secrets, and no keys for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mpmon.tui.describe.help import help_lines
from mpmon.tui.keys import APP_KEYS, ENVIRONMENT_KEYS, MAIN_KEYS, SIGNAL_KEYS, Key
from mpmon.tui.line import text_of
from mpmon.tui.options import Options
from tests.tui.fakes import FakeWatch, hung
from tests.tui.node_fakes import node
from tests.tui.screens import LARGE, WIDE, draw, play, screen_text_of, settle
from tests.tui.test_environment import answer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from textual.pilot import Pilot

    from mpmon.model import Process

GUEST = {"guest": True, "readonly": True}
WITHHELD = tuple(
    key for key in (*APP_KEYS, *MAIN_KEYS, *ENVIRONMENT_KEYS) if key.action in ("signals", "export", "unmask")
)


def on_the_line(key: Key) -> str:
    return f"{key.shown.split()[0]} {key.label}"


def test_what_is_withheld_from_whom() -> None:
    assert Options().withheld == frozenset()
    assert Options(readonly=True).withheld == {"signals"}
    assert Options(guest=True).withheld == {key.action for key in WITHHELD}


@pytest.mark.parametrize("press", [(), ("e",)])
def test_keys_of_what_is_withheld_are_not_on_the_line_of_keys(press: tuple[str, ...]) -> None:
    offered = draw(hung(), WIDE, *press)
    guests = draw(hung(), WIDE, *press, **GUEST)
    shown = [on_the_line(key) for key in WITHHELD if on_the_line(key) in offered]
    assert len(shown) == 2
    assert not [words for words in shown if words in guests]
    assert on_the_line(APP_KEYS[0]) in guests


def test_nor_in_the_help() -> None:
    withheld = Options(guest=True).withheld
    said = [text_of(line) for line in help_lines(200, withheld)]
    assert not [key for key in WITHHELD for line in said if key.help in line]
    assert "environment" not in said
    assert "signals" not in said
    assert not [key for key in SIGNAL_KEYS for line in said if key.help in line]
    assert len([line for line in said if "quit mpmon" in line]) == 1


def test_nor_on_the_page_of_keys() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("h")
        await settle(pilot, lambda: "quit mpmon" in screen_text_of(pilot))
        assert "save the screen" not in screen_text_of(pilot)
        await pilot.press("h", "escape")
        await settle(pilot, lambda: "quit mpmon" not in screen_text_of(pilot))

    play(FakeWatch(hung()), script, size=WIDE, first="4121", **GUEST)


@pytest.mark.parametrize("press", [(), ("e",)])
def test_nor_in_the_palette(press: tuple[str, ...]) -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press(*press)
        await settle(pilot)
        found = {command.title for command in pilot.app.get_system_commands(pilot.app.screen)}
        assert APP_KEYS[0].help in found
        assert not [key for key in WITHHELD if key.help in found]

    play(FakeWatch(hung()), script, first="4121", send=lambda number, processes: (), **GUEST)


def test_the_keys_themselves_do_nothing_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sent: list[int] = []

    def send(number: int, _: Sequence[Process]) -> tuple[()]:
        sent.append(number)
        return ()

    async def script(pilot: Pilot[int]) -> None:
        for key, said in (("x", "no files: a window of mpmon serve may only look"), ("k", "no signals: a window")):
            await pilot.press(key)
            await settle(pilot, lambda said=said: said in screen_text_of(pilot))
        await pilot.press("enter", "down", "enter", "escape")

    play(FakeWatch(hung()), script, size=LARGE, first="4121", send=send, export=lambda _: "report", **GUEST)
    assert list(tmp_path.iterdir()) == []
    assert sent == []


def test_secrets_stay_masked() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("e")
        await settle(pilot, lambda: "HF_TOKEN=******" in screen_text_of(pilot))
        assert "masked (v)" not in screen_text_of(pilot)
        await pilot.press("v")
        await settle(pilot, lambda: "no secrets: a window of mpmon serve may only look" in screen_text_of(pilot))
        assert "HF_TOKEN=******" in screen_text_of(pilot)
        await pilot.press("y")
        await settle(pilot)
        assert "hf_secret" not in pilot.app.clipboard + screen_text_of(pilot)

    play(FakeWatch(node(hung=True)), script, size=LARGE, environment=answer, first="rank 6", **GUEST)
