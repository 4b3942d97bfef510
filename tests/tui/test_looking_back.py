"""The keys with which one looks back, on the screen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from mpmon.session.watch import ReplayWatch
from mpmon.snapshot_buffer import TOGETHER
from tests.hangs.expected import HOME
from tests.session.hanging import HANGS, WORKS, record
from tests.tui.fakes import NOW, FakeWatch, hung
from tests.tui.screens import play, settle, shows

if TYPE_CHECKING:
    from textual.pilot import Pilot


@pytest.fixture
def replay(tmp_path: Path) -> ReplayWatch:
    return ReplayWatch(record(tmp_path / "hang.jsonl.gz"))


def test_a_recording_is_read_on_to_the_hang_and_looked_at_around_it(replay: ReplayWatch) -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("b")
        await settle(pilot, lambda: shows(pilot, f"{WORKS} of {WORKS + HANGS}", "[paused]", "HEALTHY"))
        await pilot.press("comma", "comma")
        await settle(pilot, lambda: shows(pilot, f"{WORKS - 2} of {WORKS + HANGS}"))
        await pilot.press("full_stop")
        await settle(pilot, lambda: shows(pilot, f"{WORKS - 1} of {WORKS + HANGS}"))

    play(replay, script)


def test_a_recording_that_has_ended_can_be_gone_back_in(replay: ReplayWatch) -> None:
    replay.speed = 1e9

    async def script(pilot: Pilot[int]) -> None:
        await settle(pilot, lambda: shows(pilot, "50 of 50, the end"))
        await pilot.press("comma")
        await settle(pilot, lambda: shows(pilot, "49 of 50") and not shows(pilot, "the end"))
        await pilot.press("p")
        await settle(pilot, lambda: shows(pilot, "50 of 50, the end"))

    play(replay, script)


def test_pictures_that_became_bytes_are_looked_at_as_they_were() -> None:
    watch = FakeWatch(*(msgspec.structs.replace(hung(now=NOW + 60 * n), number=n + 1) for n in range(2 * TOGETHER + 2)))

    async def script(pilot: Pilot[int]) -> None:
        await settle(pilot, lambda: shows(pilot, f"HUNG {4 + 2 * TOGETHER + 1} min 12 s"))
        await pilot.press(*["comma"] * (2 * TOGETHER + 1))
        await settle(pilot, lambda: shows(pilot, "HUNG 4 min 12 s", f"1 of {2 * TOGETHER + 2}"))
        await pilot.press("full_stop")
        await settle(pilot, lambda: shows(pilot, "HUNG 5 min 12 s", f"2 of {2 * TOGETHER + 2}"))
        await pilot.press("b")
        await settle(pilot, lambda: shows(pilot, "HUNG 4 min 12 s", f"1 of {2 * TOGETHER + 2}"))

    play(watch, script, first="HUNG")


def test_the_past_of_a_live_job_is_a_key_away_and_p_returns_to_now() -> None:
    watch = FakeWatch(*(msgspec.structs.replace(hung(now=NOW + 60 * n), number=n + 1) for n in range(3)))

    async def script(pilot: Pilot[int]) -> None:
        await settle(pilot, lambda: shows(pilot, "HUNG 6 min 12 s"))
        await pilot.press("comma")
        await settle(pilot, lambda: shows(pilot, "HUNG 5 min 12 s", "2 of 3", "[paused]"))
        await pilot.press("comma", "comma")
        await settle(pilot, lambda: shows(pilot, "HUNG 4 min 12 s", "no earlier snapshot is kept"))
        await pilot.press("p")
        await settle(pilot, lambda: shows(pilot, "HUNG 6 min 12 s") and not shows(pilot, "[paused]"))

    play(watch, script, first="HUNG")


def test_how_long_a_recording_is_shows_also_when_that_is_known_while_it_is_paused() -> None:
    watch = FakeWatch(msgspec.structs.replace(hung(), number=3), live=False)

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("p")
        await settle(pilot, lambda: shows(pilot, "[paused", "· 3]"))
        watch.length = 12
        await settle(pilot, lambda: shows(pilot, "· 3 of 12]"))

    play(watch, script)


def test_a_recording_without_a_hang_says_so_at_its_end() -> None:
    replay = ReplayWatch(HOME / "ok-between-epochs" / "recording.jsonl.gz")

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("b")
        await settle(pilot, lambda: shows(pilot, "the end", "no hang in this recording"))

    play(replay, script)
