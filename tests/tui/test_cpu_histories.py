"""What CPU processes used lately, on the time axis of the GPUs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from mpmon.diagnosis.findings import TrendPoint
from mpmon.tui.panels.processes import VAST
from mpmon.tui.tables import process_columns as columns
from mpmon.tui.trends import TRACKS, Trends
from tests.tui.fakes import NOW, FakeWatch, many, process
from tests.tui.gpu_fakes import gpu, rank_pid, training, uuid
from tests.tui.screens import LARGE, draw, play, screen_text_of, settle

if TYPE_CHECKING:
    from textual.pilot import Pilot


PID = 4101


def rounds(*percents: float | None, began: float = NOW) -> tuple[TrendPoint, ...]:
    """One a second; `None` where the process did not run."""
    return tuple(
        TrendPoint(began + second, (), (), {} if percent is None else {PID: percent})
        for second, percent in enumerate(percents)
    )


def history(trend: tuple[TrendPoint, ...], *, step: int = 1, width: int = 8, started: float = NOW - 600) -> str:
    trends = Trends()
    trends.take(trend, step, width)
    return trends.cpu(msgspec.structs.replace(process(PID), start_time=started))


def test_a_round_tells_what_was_used_since_the_one_before() -> None:
    assert history(rounds(50, 100, None, 50, 0)) == "    ▇▁▄▁"


def test_a_character_is_the_mean_over_its_time() -> None:
    trend = rounds(0, *[100] * 5, *[0] * 5, began=NOW - NOW % 10)

    assert history(trend, step=5, width=2) == "▇▁"
    assert history(trend, step=10, width=1) == "▄"


def test_more_than_one_core_looks_like_one() -> None:
    assert history(rounds(0, 700, 100), width=2) == "▇▇"


def test_before_it_began_there_is_a_gap() -> None:
    assert history(rounds(*[100] * 8), started=NOW + 4) == "     ▇▇▇"


def test_who_never_ran_is_flat_and_no_gap() -> None:
    trend = rounds(*[100] * 9)
    trends = Trends()
    trends.take(trend, 1, 4)

    assert trends.cpu(process(PID + 1)) == "▁▁▁▁"


def test_a_round_adds_to_a_history_what_a_new_one_would_have() -> None:
    trend = training(2).trend
    grown, fresh = Trends(), Trends()
    for end in range(1, len(trend) + 1):
        grown.take(trend[:end], 5, 24)
    fresh.take(trend, 5, 24)

    rank = process(rank_pid(1))
    assert grown.cpu(rank) == fresh.cpu(rank)
    assert len(set(grown.cpu(rank))) > 2


def test_a_history_goes_back_with_the_picture() -> None:
    trend = training(1).trend
    turned, fresh = Trends(), Trends()
    turned.take(trend, 5, 20)
    turned.take(trend[:80], 5, 20)
    fresh.take(trend[:80], 5, 20)

    assert turned.cpu(process(rank_pid(0))) == fresh.cpu(process(rank_pid(0)))


def test_what_happens_at_one_moment_stands_in_one_column_with_the_gpu() -> None:
    moments: list[TrendPoint] = []
    for second in range(20):
        busy = 100.0 if second < 12 else 0.0
        at = NOW + second
        moments.append(TrendPoint(at, (gpu(0, at=at, utilization_percent=busy),), (), {rank_pid(0): busy}))
    trends = Trends()
    trends.take(tuple(moments), 1, 16)

    assert trends.cpu(process(rank_pid(0))) == trends.history(uuid(0), TRACKS[0]) == "▇▇▇▇▇▇▇▇▁▁▁▁▁▁▁▁"


# On the screen


def test_it_stands_beside_the_histories_of_the_gpu() -> None:
    text = draw(training(2), (VAST, 60))
    heading = next(line for line in text.splitlines() if "used by" in line)

    assert heading.split()[-12:] == ["util", "2", "min", "power", "2", "min", "memory", "2", "min", "cpu", "2", "min"]


def test_without_gpus_it_stands_in_the_list_of_processes() -> None:
    job_without = msgspec.structs.replace(many(3), trend=rounds(*[100] * 9, began=NOW - 8))
    text = draw(job_without, (VAST, 60))

    assert re.search(r"still +cpu \d+ s ", text)
    assert "▁" in text


def test_on_a_smaller_screen_the_action_needs_the_room() -> None:
    assert "cpu 2" not in draw(training(2), LARGE)


def test_the_action_keeps_its_room() -> None:
    narrow, wide = (columns.plan(width, 24, gpus=True, history=True) for width in (90, 130))

    assert columns.HISTORY not in narrow.columns
    assert columns.HISTORY in wide.columns
    assert wide.does >= columns.ACTION_BESIDE_HISTORY


def test_a_line_of_several_has_none() -> None:
    trend = rounds(*[100] * 9, began=NOW - 8)

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("asterisk")
        await settle(pilot, lambda: "1–2" in screen_text_of(pilot))
        (several,) = (line for line in screen_text_of(pilot).splitlines() if "1–2" in line)
        assert "▁" not in several

    play(FakeWatch(msgspec.structs.replace(many(3), trend=trend)), script, size=(VAST, 60), first="▁")
