"""Copies for the clipboard of the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mpmon.tui import clipboard
from mpmon.tui.clipboard import Copy, for_clipboard, said
from tests.tui.fakes import FakeWatch, hung
from tests.tui.screens import play, screen_text_of, settle

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from mpmon.diagnosis.findings import Observation


def report(observation: Observation) -> str:
    return f"{observation.diagnosis.verdict.value}\n"


def copied(*keys: str, told: str, observation: Observation | None = None, **options: object) -> str:
    """What is in the clipboard after these keys, and the screen says so."""
    found: list[str] = []

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press(*keys)
        await settle(pilot, lambda: told in screen_text_of(pilot))
        found.append(pilot.app.clipboard)

    play(FakeWatch(observation or hung()), script, size=(120, 40), first="4121", **options)
    return found[0]


def test_the_report_is_copied_from_the_main_screen() -> None:
    assert copied("y", told="report sent to the clipboard (1 line)", export=report) == "hung\n"


def test_all_of_a_page_is_copied_in_view_or_not() -> None:
    text = copied("w", "y", told="page sent to the clipboard")
    assert text.startswith("1. dataloader worker 1 has been asleep for 4 min 12 s in download()")
    assert "· num_workers=0 runs it in the trainer, where it is easier to watch." in text
    assert not any(line.endswith(" ") for line in text.splitlines())


def test_without_a_report_there_is_nothing_to_copy() -> None:
    assert copied("y", told="nothing to copy yet") == ""


def test_tmux_needs_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMUX", "/tmp/tmux-1/default,1,0")
    copied("y", told="tmux needs: set -g set-clipboard on", export=report)


@pytest.mark.parametrize(
    ("text", "copy"),
    [
        ("a\nb\n", Copy("a\nb\n", whole=True)),
        ("rm -rf\x1b[201~\r\nx\ty", Copy("rm -rf·[201~·\nx·y", whole=True)),
        ("Größe 漢", Copy("Größe 漢", whole=True)),
    ],
)
def test_what_is_pasted_can_do_nothing(text: str, copy: Copy) -> None:
    assert for_clipboard(text) == copy


def test_what_a_terminal_would_refuse_is_cut_at_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clipboard, "LIMIT", 7)
    copy = for_clipboard("ä\nbcd\ne\n")
    assert copy == Copy("ä\nbcd\n", whole=False)
    assert said(copy, "page", in_tmux=False) == "page sent to the clipboard (2 lines, the first of more)"
