"""Runs the app without a terminal and reads its screen as text."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from mpmon.tui.app import MonitorApp
from mpmon.tui.options import Options
from tests.patience import patience
from tests.tui.fakes import FakeWatch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from textual.pilot import Pilot

    from mpmon.diagnosis.findings import Observation
    from mpmon.source import Watch

GOLDENS = Path(__file__).parent / "goldens"

SMALL = (80, 24)
LARGE = (120, 40)
WIDE = (200, 60)
SIZES = {"80x24": SMALL, "120x40": LARGE, "200x60": WIDE}
"""Every screen is drawn at the smallest size that must work, at a comfortable one, and in two columns."""


def screen_text(app: MonitorApp) -> str:
    """What the terminal would show, without trailing blanks."""
    compositor = app.screen._compositor  # pyright: ignore[reportPrivateUsage]  there is no public way
    strips = compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips) + "\n"


def check_golden(name: str, text: str) -> None:
    """Compares with the file, or writes it when `MPMON_UPDATE_GOLDENS` is set."""
    file = GOLDENS / f"{name}.txt"
    if os.environ.get("MPMON_UPDATE_GOLDENS") == "1":
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


async def settle(pilot: Pilot[int], until: Callable[[], bool] = lambda: True) -> None:
    """Waits until the screen says so; messages come from another thread."""
    for _ in patience(pause_s=0.01):
        await pilot.pause()
        if until():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the screen did not get there:\n" + screen_text_of(pilot))


def shows(pilot: Pilot[int], *words: str) -> bool:
    """Whether all of these words are on the screen."""
    text = screen_text_of(pilot)
    return all(word in text for word in words)


def screen_text_of(pilot: Pilot[int]) -> str:
    """The text of a pilot's app."""
    assert isinstance(pilot.app, MonitorApp)
    return screen_text(pilot.app)


def draw(
    observation: Observation, size: tuple[int, int], *keys: str, first: str = "train.py", **options: object
) -> str:
    """The screen after some keys, pressed from the moment it shows `first`."""
    drawn: list[str] = []

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press(*keys)
        await settle(pilot)
        drawn.append(screen_text_of(pilot))

    play(FakeWatch(observation), script, size=size, first=first, **options)
    return drawn[0]


def play(
    watch: Watch,
    script: Callable[[Pilot[int]], Awaitable[None]],
    *,
    size: tuple[int, int] = SMALL,
    first: str = "pid",
    **options: object,
) -> MonitorApp:
    """Runs a script of keys against the app, from the moment its screen shows `first`.

    Rounds are a minute apart, so that a slow machine does not make the app tell of a silent watch.
    """
    app = MonitorApp(watch, Options(**{"interval": 60.0, **options}))  # pyright: ignore[reportArgumentType]

    async def session() -> None:
        async with app.run_test(size=size) as pilot:
            await settle(pilot, lambda: first in screen_text(app))
            await script(pilot)
        app.stop_feed()

    asyncio.run(session())
    return app
