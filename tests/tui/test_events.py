"""What happened: the page that follows it, the panel on a large screen, the section of one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from mpmon.diagnosis.findings import Event
from mpmon.tui.describe.events import MOST_OF_ONE, events, of_process
from mpmon.tui.line import cells, text_of, text_of_lines
from mpmon.tui.scene import Scene
from tests.tui.fakes import NOW, FakeWatch, hung
from tests.tui.ipc_fakes import WORKERS, loader
from tests.tui.screens import SIZES, check_golden, play, screen_text_of, settle, shows

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from mpmon.diagnosis.findings import Observation


def log(count: int, *, pid: int = 4100) -> Observation:
    """A job to which so much happened, an event a second."""
    happened = [Event(at=NOW - 100 + n, kind="born", summary=f"happening {n}.", pids=(pid,)) for n in range(count)]
    return msgspec.structs.replace(hung(), events=tuple(happened))


@pytest.mark.parametrize("size", SIZES)
def test_page(size: str) -> None:
    drawn: list[str] = []

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("l")
        await settle(pilot, lambda: shows(pilot, "── events", "2026-01-01"))
        drawn.append(screen_text_of(pilot))

    play(FakeWatch(loader()), script, size=SIZES[size], first="train.py")
    check_golden(f"events-{size}", drawn[0])


def test_the_page_follows_the_newest() -> None:
    watch = FakeWatch(log(40))

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("l")
        await settle(pilot, lambda: shows(pilot, "happening 39."))
        watch.feed(log(60))
        await settle(pilot, lambda: shows(pilot, "happening 59."))

    play(watch, script, first="train.py")


def test_who_scrolls_away_is_not_carried_off_until_back_at_the_end() -> None:
    watch = FakeWatch(log(40))

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("l")
        await settle(pilot, lambda: shows(pilot, "happening 39."))
        await pilot.press("home")
        await settle(pilot, lambda: shows(pilot, "happening 0."))
        watch.feed(log(60))
        await settle(pilot, lambda: shows(pilot, "of 61", "happening 0."))
        await pilot.press("end")
        await settle(pilot, lambda: shows(pilot, "happening 59."))
        watch.feed(log(80))
        await settle(pilot, lambda: shows(pilot, "happening 79."))

    play(watch, script, first="train.py")


def test_another_size_keeps_the_newest_in_view() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("l")
        await settle(pilot, lambda: shows(pilot, "happening 39."))
        await pilot.resize_terminal(80, 15)
        await settle(pilot, lambda: shows(pilot, "happening 39.") and not shows(pilot, "happening 20."))

    play(FakeWatch(log(40)), script, first="train.py")


def test_a_job_to_which_nothing_happened() -> None:
    assert text_of_lines(events(Scene(hung()), 80)) == "nothing yet\n"


def test_trouble_is_marked_and_its_end_too() -> None:
    found = {text_of(line)[12:28]: (text_of(line)[:1], line[0][1]) for line in events(Scene(loader()), 200)}

    assert found["the job hangs, f"] == ("!", "bad")
    assert found["stacks: works ag"] == (" ", "good")
    assert found["dataloader worke"] == (" ", "dim")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_page_fits(width: int) -> None:
    assert max(map(cells, events(Scene(loader()), width))) <= width


# The panel


def test_a_large_screen_shows_the_last_ones_and_a_small_one_what_matters_more() -> None:
    async def script(pilot: Pilot[int]) -> None:
        assert not shows(pilot, "── events")
        await pilot.resize_terminal(200, 60)
        await settle(pilot, lambda: shows(pilot, "── events", "happening 39.") and not shows(pilot, "happening 1."))

    play(FakeWatch(log(40)), script, first="train.py")


def test_the_panel_follows_the_newest() -> None:
    watch = FakeWatch(log(40))

    async def script(pilot: Pilot[int]) -> None:
        watch.feed(log(41))
        await settle(pilot, lambda: shows(pilot, "happening 40."))

    play(watch, script, size=(200, 60), first="happening 39.")


def test_a_click_opens_the_page() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.click(offset=(150, 57))
        await settle(pilot, lambda: shows(pilot, "happening 0."))

    play(FakeWatch(log(40)), script, size=(200, 60), first="happening 39.")


def test_no_key_goes_to_the_panel() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("3", "3")
        await settle(pilot)
        assert shows(pilot, "── processes", "── stack", "── events")

    play(FakeWatch(log(40)), script, size=(200, 60), first="happening 39.")


# One process


def test_the_details_have_those_of_the_process() -> None:
    scene = Scene(loader())
    said = text_of_lines(of_process(scene, scene.processes[WORKERS[1]], 120))

    assert "dataloader worker 1 started again (pid 4121)" in said
    assert "mpmon watches" not in said


def test_of_many_they_have_the_newest() -> None:
    scene = Scene(log(40))
    said = text_of_lines(of_process(scene, scene.processes[4100], 120))

    assert "28 earlier ones (l)" in said
    assert said.count("happening") == MOST_OF_ONE
    assert "happening 39." in said
