"""Every screen as text, of jobs made up and of recordings of real ones."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest
from rich.segment import Segment
from textual.color import Color

from mpmon.session.watch import ReplayWatch
from mpmon.tui.ascii import AsciiFilter
from tests.hangs.expected import HOME
from tests.tui.fakes import NOW, FakeWatch, ended, healthy, hung, hung_twice, many
from tests.tui.screens import GOLDENS, LARGE, SIZES, SMALL, check_golden, draw, play, screen_text_of, settle

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from mpmon.diagnosis.findings import Observation

SCENES = {"hung": hung, "hung-twice": hung_twice, "healthy": healthy, "ended": ended, "many": lambda: many(256)}

PAGES = {"details": "enter", "stacks": "s", "groups": "S", "why": "w", "help": "h"}

RECORDED = {
    "recorded-loader": ("dl-getitem-sleep", ()),
    "recorded-loader-why": ("dl-getitem-sleep", ("w",)),
    "recorded-loader-details": ("dl-getitem-sleep", ("enter",)),
    "recorded-loader-stacks": ("dl-getitem-sleep", ("s",)),
    "recorded-loader-ipc": ("dl-getitem-sleep", ("i",)),
    "recorded-loader-events": ("dl-getitem-sleep", ("l",)),
    "recorded-ranks": ("rank-loader-worker", ()),
    "recorded-ranks-groups": ("rank-loader-worker", ("S",)),
    "recorded-collective": ("uneven-batches", ()),
    "recorded-cycle": ("mp-lock-abba", ()),
    "recorded-dead": ("pool-worker-killed", ()),
    "recorded-queue": ("queue-join-undrained", ()),
    "recorded-healthy": ("ok-dl-trainer-long-steps", ()),
    "recorded-torchrun": ("ok-torchrun", ()),
    "recorded-straggler": ("ok-straggler", ()),
    "locks": ("threads-abba", ()),
    "locks-why": ("threads-abba", ("w",)),
}
"""Recordings of `tests/hangs`, and the keys that lead to a screen."""


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scene", SCENES)
def test_main_screen(scene: str, size: str) -> None:
    check_golden(f"{scene}-{size}", draw(SCENES[scene](), SIZES[size], first=" · pid "))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PAGES)
def test_page(name: str, size: str) -> None:
    check_golden(f"{name}-{size}", draw(hung(), SIZES[size], PAGES[name]))


@pytest.mark.parametrize("size", SIZES)
def test_page_of_several_findings(size: str) -> None:
    check_golden(f"why-twice-{size}", draw(hung_twice(), SIZES[size], "w", first="jobs.sh"))


@cache
def last_of(recording: str) -> Observation:
    """The last picture of a recorded job."""
    *_, last = ReplayWatch(HOME / recording / "recording.jsonl.gz", at_once=True)
    return last


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", RECORDED)
def test_screen_of_a_real_job(name: str, size: str) -> None:
    recording, keys = RECORDED[name]
    check_golden(f"{name}-{size}", draw(last_of(recording), SIZES[size], *keys, first=" · pid "))


@pytest.mark.parametrize("size", SIZES)
def test_list_sorted_by_memory(size: str) -> None:
    check_golden(f"list-{size}", draw(hung(), SIZES[size], "t", *["f6"] * 4))


def test_every_picture_is_kept_at_every_size() -> None:
    names = {file.stem.rpartition("-")[0] for file in GOLDENS.iterdir()}
    assert {file.stem for file in GOLDENS.iterdir()} == {f"{name}-{size}" for name in names for size in SIZES}


def test_a_resized_screen_looks_as_if_it_had_always_been_so_large() -> None:
    drawn: list[str] = []

    async def script(pilot: Pilot[int]) -> None:
        await pilot.resize_terminal(*LARGE)
        await settle(pilot, lambda: max(map(len, screen_text_of(pilot).splitlines())) == LARGE[0])
        drawn.append(screen_text_of(pilot))

    play(FakeWatch(hung()), script, first="train.py")
    check_golden("hung-120x40", drawn[0])


def test_another_theme_colours_every_line_anew() -> None:
    colours: list[set[str]] = []

    async def script(pilot: Pilot[int]) -> None:
        for theme in ("textual-light", "nord", "ansi-dark"):
            pilot.app.theme = theme
            await settle(pilot)
            strips = pilot.app.screen._compositor.render_strips()
            colours.append({str(segment.style.bgcolor) for strip in strips for segment in strip if segment.style})

    play(FakeWatch(hung()), script, first="train.py")
    assert len({frozenset(found) for found in colours}) == len(colours)
    assert not colours[0] & colours[1]


def test_a_later_picture_leaves_nothing_of_the_one_before() -> None:
    watch, drawn = FakeWatch(many(40)), list[str]()

    async def script(pilot: Pilot[int]) -> None:
        watch.feed(hung(now=NOW + 3600))
        await settle(pilot, lambda: "1 h 04" in screen_text_of(pilot))
        watch.feed(hung())
        await settle(pilot, lambda: "HUNG 4 min 12 s" in screen_text_of(pilot))
        drawn.append(screen_text_of(pilot))

    play(watch, script, size=LARGE, first="train.py")
    check_golden("hung-120x40", drawn[0])


def test_nothing_overflows_a_narrow_terminal() -> None:
    text = draw(hung(), (40, 16))

    assert max(map(len, text.splitlines())) <= 40
    assert "HUNG" in text


def test_ascii_draws_only_ascii() -> None:
    # The filter works on what is sent to the terminal, behind what `screen_text` reads.
    text = draw(hung(), SMALL, ascii_only=True)
    (segment,) = AsciiFilter().apply([Segment(text)], Color(0, 0, 0))

    assert segment.text.isascii()
    assert list(map(len, segment.text.splitlines())) == list(map(len, text.splitlines()))
    assert "`- resource tracker" in segment.text
