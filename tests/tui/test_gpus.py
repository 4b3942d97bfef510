"""GPUs on the screen: the panel, its histories, the columns of the processes, and what else there is to know."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from rich.segment import Segment
from textual.color import Color

from mpmon.diagnosis.findings import TrendPoint
from mpmon.tui.ascii import AsciiFilter
from mpmon.tui.gauges import bar, sparkline
from mpmon.tui.line import text_of
from mpmon.tui.panels.gpus import GpusPanel
from mpmon.tui.scene import Scene
from mpmon.tui.tables.gpu_columns import HISTORIES, MARK, plan
from mpmon.tui.tables.gpu_rows import gpu_rows
from mpmon.tui.tables.process_rows import Rows
from mpmon.tui.tables.tree import Branch
from mpmon.tui.trends import TRACKS, Trends, step_for
from tests.tui.fakes import NOW, BlockedWatch, FakeWatch, with_tables, with_views
from tests.tui.gpu_fakes import (
    GIB,
    LAUNCHER,
    SPINNING,
    STRAY_CONTEXTS,
    gpu,
    gpu_process,
    in_trouble,
    job,
    rank_pid,
    shared_device,
    sixteen,
    training,
    uuid,
    without_driver,
)
from tests.tui.screens import SIZES, SMALL, check_golden, draw, play, settle, shows

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from mpmon.diagnosis.findings import Observation
    from mpmon.tui.tables.gpu_rows import GpuRow

UTIL, POWER, MEMORY = TRACKS


def with_remarks() -> Observation:
    return training(remarks=(STRAY_CONTEXTS, SPINNING))


SCREENS = {
    "training": (training, ()),
    "trouble": (in_trouble, ()),
    "sixteen": (sixteen, ("1", "end")),
    "mig": (shared_device, ("1", "down")),
    "no-gpu": (without_driver, ()),
    "remarks": (with_remarks, ()),
}
"""Name of the picture: what is seen, and keys pressed before."""

PAGES = {
    "details": (training, ("enter",)),
    "mig-details": (shared_device, ("1", "down", "enter")),
    "trouble-details": (in_trouble, ("enter",)),
    "no-gpu-details": (without_driver, ("enter",)),
    "remarks-why": (with_remarks, ("w",)),
}


def row_of(observation: Observation, index: int) -> GpuRow:
    return gpu_rows(Scene(observation), None)[index]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", SCREENS)
def test_screen(name: str, size: str) -> None:
    made, keys = SCREENS[name]
    check_golden(f"gpus-{name}-{size}", draw(made(), SIZES[size], *keys))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PAGES)
def test_page(name: str, size: str) -> None:
    made, keys = PAGES[name]
    check_golden(f"gpus-{name}-{size}", draw(made(), SIZES[size], *keys))


def test_eight_gpus_and_eight_ranks_fit_a_small_screen() -> None:
    text = draw(training(), SMALL)

    assert [f"{n} rank {n}" in text for n in range(8)] == [True] * 8
    assert [f"─ rank {n} " in text for n in range(8)] == [True] * 8


def test_ascii_knows_every_glyph() -> None:
    text = draw(in_trouble(), SIZES["200x60"])
    (segment,) = AsciiFilter().apply([Segment(text)], Color(0, 0, 0))

    assert segment.text.isascii()
    assert segment.text.count("?") == text.count("?")


# Keys


def test_selecting_a_gpu_selects_its_rank() -> None:
    watch = FakeWatch(training())

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("1", "down", "down", "down")
        await settle(pilot, lambda: ("attend", rank_pid(3)) in watch.asked)
        await pilot.press("enter")
        await settle(pilot, lambda: shows(pilot, "details rank 3"))

    play(watch, script, first="rank 7")


def test_the_gpu_of_the_selected_process_is_marked() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("end")
        await settle(pilot, lambda: shows(pilot, "›  15 rank 15"))

    play(FakeWatch(sixteen()), script, first="rank 7")


def test_a_gpu_that_nobody_of_the_job_uses_selects_nobody() -> None:
    watch = FakeWatch(job([gpu(0), gpu(1)], [gpu_process(0)], ranks=1))

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("1", "up", "down")
        await settle(pilot)

    play(watch, script, first="rank 0")

    assert [pid for asked, pid in watch.asked[:-1]] == [rank_pid(0)]


def test_without_gpus_the_first_panel_is_that_of_the_processes() -> None:
    async def script(pilot: Pilot[int]) -> None:
        assert pilot.app.screen.query_one(GpusPanel).absent
        await pilot.press("1")
        await settle(pilot, lambda: shows(pilot, "── processes 3") and not shows(pilot, "── stack"))
        await pilot.press("escape", "3")
        await settle(pilot, lambda: shows(pilot, "── stack"))

    play(FakeWatch(without_driver()), script, first="rank 1")


def test_the_stack_gets_room_while_it_has_the_keys() -> None:
    async def script(pilot: Pilot[int]) -> None:
        assert not shows(pilot, "── stack")
        await pilot.press("3")
        await settle(pilot, lambda: shows(pilot, "── stack rank 0"))
        await pilot.press("2")
        await settle(pilot, lambda: not shows(pilot, "── stack"))

    play(FakeWatch(training()), script, first="rank 7")


def test_a_driver_that_blocks_blocks_neither_keys_nor_the_exit() -> None:
    """The watch never comes back: who waited for it would wait for ever."""
    watch = BlockedWatch(in_trouble())

    async def script(pilot: Pilot[int]) -> None:
        await settle(pilot, lambda: shows(pilot, "driver call blocks 12 s"))
        await pilot.press("1", "down", "enter")
        await settle(pilot, lambda: shows(pilot, "details rank"))
        await pilot.press("escape", "q")

    app = play(watch, script, first="lost")

    assert app.return_code == 0


def test_a_gpu_that_comes_late_brings_its_panel() -> None:
    watch = FakeWatch(without_driver())

    async def script(pilot: Pilot[int]) -> None:
        watch.feed(training(2))
        await settle(pilot, lambda: shows(pilot, "── gpus 2", "0 rank 0"))
        watch.feed(without_driver())
        await settle(pilot, lambda: not shows(pilot, "── gpus"))

    play(watch, script, first="rank 1")


def test_a_row_that_did_not_change_is_not_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    before, draw_row = training(2), GpusPanel.draw_row

    def note(panel: GpusPanel, row: GpuRow, width: int) -> object:
        drawn.append(row.label)
        return draw_row(panel, row, width)

    monkeypatch.setattr(GpusPanel, "draw_row", note)
    first, second = before.snapshot.gpus
    hotter = msgspec.structs.replace(second, temperature_celsius=71.0)
    later = job([first, hotter], before.snapshot.gpu_processes, ranks=2, past=before.trend[:-1])
    watch = FakeWatch(before)

    async def script(pilot: Pilot[int]) -> None:
        await settle(pilot)
        drawn.clear()
        watch.feed(later)
        await settle(pilot, lambda: shows(pilot, " 71 "))

    play(watch, script, first="rank 1")

    assert drawn == ["1"]


# Rows


def test_trouble_is_red_and_load_never_is() -> None:
    styles = [{style for _, style in row.notes} for row in gpu_rows(Scene(in_trouble()), None)]

    assert [number for number, found in enumerate(styles) if "bad" in found] == [2, 5]
    assert not {style for row in gpu_rows(Scene(training()), None) for _, style in row.notes} & {"bad", "warn"}


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"problem": "the GPU requires a reset: end all that use it"}, "requires a reset"),
        ({"ecc_uncorrected": 3, "recovery_action": "reset"}, "driver asks for reset · ECC 3 uncorrected"),
        ({"clock_event_reasons": ("idle", "thermal (hardware)")}, "thermal (hardware)"),
        ({"mig": True}, "MIG"),
        ({"read_at": NOW - 75}, "values 1 min 15 s old"),
    ],
)
def test_what_matters_about_a_gpu(facts: dict[str, object], said: str) -> None:
    assert text_of(row_of(job([gpu(0, **facts)], [], ranks=1), 0).notes) == said


def test_who_uses_a_gpu() -> None:
    everywhere = [gpu_process(rank, gpu_uuid=uuid(0), memory_bytes=GIB) for rank in range(4)]
    observation = job([gpu(0), gpu(1), gpu(2)], [*everywhere, gpu_process(1)], ranks=4)

    assert [row.users for row in gpu_rows(Scene(observation), None)] == ["rank 0–3", "rank 1", ""]


def test_a_pid_of_another_namespace_is_nobody_of_the_job() -> None:
    foreign = gpu_process(0, reasons={"pid": "a pid of another namespace"})
    row = row_of(job([gpu(0)], [foreign], ranks=1), 0)

    assert (row.users, row.pid, text_of(row.notes)) == ("", None, "1 other 58G")


def test_who_uses_it_is_unknown_where_the_driver_does_not_say() -> None:
    row = row_of(job([gpu(0, reasons={"gpu_processes": "no permission"})], [], ranks=1), 0)

    assert row.users == "–"


def test_a_rank_keeps_its_place_on_a_gpu_that_was_lost() -> None:
    rows = gpu_rows(Scene(in_trouble()), rank_pid(2))

    assert [(row.users, row.selected) for row in rows][2] == ("rank 2", True)


# Histories


def test_histories_have_gaps_where_nothing_was_read() -> None:
    moments = [
        TrendPoint(100.0 + second, (gpu(0, read_at=100.0 + second - (0 if second < 4 or second > 7 else 50)),), (), {})
        for second in range(12)
    ]
    trends = Trends()
    trends.take(tuple(moments), 1, 12)

    assert [mark == " " for mark in trends.history(uuid(0), UTIL)] == [False] * 4 + [True] * 4 + [False] * 4


def test_an_idle_gpu_is_no_gap() -> None:
    assert sparkline((0, None, 6)) == "▁ ▇"


def test_a_round_adds_to_a_history_what_a_new_one_would_have() -> None:
    trend = in_trouble().trend
    grown, fresh = Trends(), Trends()
    for end in range(1, len(trend) + 1):
        grown.take(trend[max(0, end - 60) : end], 2, 20)
    fresh.take(trend[-60:], 2, 20)

    assert [grown.history(uuid(n), POWER) for n in range(8)] == [fresh.history(uuid(n), POWER) for n in range(8)]
    assert len(grown.history(uuid(0), POWER)) == 20


def test_a_history_goes_back_with_the_picture() -> None:
    trend = training(1).trend
    turned, fresh = Trends(), Trends()
    turned.take(trend, 2, 20)
    turned.take(trend[:50], 2, 20)
    fresh.take(trend[:50], 2, 20)

    assert turned.history(uuid(0), UTIL) == fresh.history(uuid(0), UTIL)


@pytest.mark.parametrize(
    ("interval", "rounds", "width", "step"),
    [
        (1.0, 10, 10, 2),
        (1.0, 40, 10, 5),
        (1.0, 240, 10, 20),
        (1.0, 240, 100, 2),
        (0.5, 240, 150, 1),
        (5.0, 40, 100, 10),
    ],
)
def test_a_character_stands_for_a_round_time_and_all_of_them_for_what_was_seen(
    interval: float, rounds: int, width: int, step: int
) -> None:
    trend = tuple(TrendPoint(100.0 + interval * n, (), (), {}) for n in range(rounds))

    assert step_for(trend, width) == step


def test_bars_go_by_half_cells() -> None:
    assert [bar(percent, 4) for percent in (None, 0, 13, 100)] == [
        ("", "    "),
        ("", "────"),
        ("╸", "───"),
        ("━━━━", ""),
    ]


# Columns and room


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120, 160, 200, 300])
def test_columns_fit_and_histories_are_alike(width: int) -> None:
    planned = plan(width, gpu_rows(Scene(in_trouble()), None))
    widths = {taken for column, taken in planned.columns if column in HISTORIES}

    assert MARK + sum(taken + 1 for _, taken in planned.columns) - 1 <= width
    assert len(widths) <= 1


def test_numbers_of_large_gpus_are_not_cut() -> None:
    b200 = {"memory_total_bytes": 180 * GIB, "memory_used_bytes": 172 * GIB, "power_watts": 998.0}
    text = draw(job([gpu(0, **b200, power_limit_watts=1000.0)], [gpu_process(0)], ranks=1), SMALL)

    assert " 172.0/180G " in text
    assert " 998/1000 " in text


def test_more_room_shows_more_histories() -> None:
    rows = gpu_rows(Scene(training()), None)

    assert [plan(width, rows).histories[0] for width in (40, 80, 120, 140, 200)] == [0, 1, 2, 3, 4]


def test_a_folded_branch_sums_memory_and_has_the_range_of_what_its_devices_do() -> None:
    (row,) = Rows().of(Scene(training(4)), [Branch(LAUNCHER, "", 4)])

    assert row.gpu == "0–3"
    assert row.gpu_memory == sum(gpu_process(rank).memory_bytes or 0 for rank in range(4))
    assert (row.gpu_sm_least, row.gpu_sm) == (91, 94)


def test_processes_on_one_device_add_up() -> None:
    job = training(1)
    row = gpu_process(0)
    same = [msgspec.structs.replace(row, pid=row.pid + n, sm_percent=20.0 + n) for n in range(2)]
    views = job.diagnosis.processes
    both = (*views, msgspec.structs.replace(views[1], pid=row.pid + 1, parent=row.pid))
    scene = Scene(with_views(with_tables(job, gpu_processes=tuple(same)), *both))
    (found,) = Rows().of(scene, [Branch(LAUNCHER, "", 2)])

    assert (found.gpu_sm_least, found.gpu_sm) == (41, 41)


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    (row,) = Rows().of(Scene(shared_device()), [Branch(LAUNCHER, "", 4)])

    assert (row.gpu, row.gpu_sm) == ("×3", None)
    assert row.gpu_memory == (31 + 9 + 25 + 22) * GIB
