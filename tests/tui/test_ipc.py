"""What processes share on the screen: the panel, its page, the section of the details, and how often items are taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from rich.segment import Segment
from textual.color import Color

from mpmon.diagnosis import ipc
from mpmon.diagnosis.findings import TrendPoint, Verdict
from mpmon.diagnosis.throughput.rates import rates
from mpmon.model import Blocked, Handle, QueueState, SemaphoreUse, Unknown
from mpmon.tui import format as fmt
from mpmon.tui.ascii import AsciiFilter
from mpmon.tui.describe.ipc import WHAT_IT_ADDS, everything, of_process
from mpmon.tui.describe.queues import waits_since
from mpmon.tui.describe.throughput import throughput, throughput_before
from mpmon.tui.line import cells, text_of, text_of_lines
from mpmon.tui.panels.queues import QueuesPanel
from mpmon.tui.scene import Scene
from mpmon.tui.tables.ipc_columns import line, plan
from mpmon.tui.tables.ipc_row import IpcRow
from mpmon.tui.tables.ipc_rows import ipc_rows
from tests.tui.fakes import NOW, FakeWatch, healthy, hung, observe, with_tables
from tests.tui.gpu_fakes import training
from tests.tui.ipc_fakes import (
    CONSUMER,
    INDICES,
    JOBS,
    KEPT,
    MAIN,
    PRODUCER,
    READER,
    RESULTS,
    WEIGHTS,
    WORKERS,
    WRITERS,
    full,
    leak,
    loader,
    queue,
    semaphores,
)
from tests.tui.node_fakes import RANKS, STUCK, node
from tests.tui.screens import LARGE, SIZES, SMALL, check_golden, draw, play, settle, shows

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from mpmon.diagnosis.findings import Observation

SCREENS = {
    "loader": (loader, ()),
    "leak": (leak, ()),
    "full": (full, ()),
    "leak-page": (leak, ("i",)),
    "full-page": (full, ("i",)),
    "loader-page": (loader, ("i",)),
    "leak-details": (leak, ("end", "enter", "end")),
    "full-focus": (full, ("2", "down")),
}
"""Name of the picture: what is seen, and keys pressed before."""


def rows_of(observation: Observation, *, folded: bool = True) -> list[IpcRow]:
    return ipc_rows(Scene(observation), folded=folded)


def row_of(observation: Observation, what: str) -> IpcRow:
    return next(row for row in rows_of(observation) if row.what == what)


def page_of(observation: Observation, width: int = 120) -> str:
    return text_of_lines(everything(Scene(observation), width))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", SCREENS)
def test_screen(name: str, size: str) -> None:
    made, keys = SCREENS[name]
    check_golden(f"ipc-{name}-{size}", draw(made(), SIZES[size], *keys))


@pytest.mark.parametrize("page", [(), ("i",)])
def test_ascii_knows_every_glyph(page: tuple[str, ...]) -> None:
    text = draw(full(), SIZES["200x60"], *page)
    (segment,) = AsciiFilter().apply([Segment(text)], Color(0, 0, 0))

    assert segment.text.isascii()
    assert segment.text.count("?") == text.count("?")


# When the panel is there


def calm_node(*, now: float = NOW) -> Observation:
    """A node of 8 ranks that is well, each with a queue: GPUs and ranks fill a small screen."""
    job = training()
    pids = [view.pid for view in job.diagnosis.processes if view.rank is not None]
    queues = [queue(f"pipe:{pid}", items=4, unread=900, putters=(pid,), getters=(pid,), pid=pid) for pid in pids]
    return with_tables(job, queues=tuple(queues), taken_at=now)


def test_without_anything_shared_there_is_no_panel() -> None:
    text = draw(healthy(), SIZES["200x60"])

    assert "queues and IPC" not in text


def test_a_healthy_job_on_a_small_screen_keeps_its_processes_in_view() -> None:
    text = draw(calm_node(), SMALL)

    assert "queues and IPC" not in text
    assert [f"─ rank {n} " in text for n in range(8)] == [True] * 8


def test_its_key_shows_it_and_leaving_it_hides_it() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("3")
        await settle(pilot, lambda: shows(pilot, "── queues and IPC", "8 × Queue"))
        await pilot.press("2")
        await settle(pilot, lambda: not shows(pilot, "queues and IPC"))

    play(FakeWatch(calm_node()), script, first="rank 7")


def test_nothing_is_joined_while_it_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    joined: list[Observation] = []
    of = ipc.of

    def note(observation: Observation) -> ipc.Ipc:
        joined.append(observation)
        return of(observation)

    monkeypatch.setattr(ipc, "of", note)
    watch = FakeWatch(calm_node())

    async def script(pilot: Pilot[int]) -> None:
        watch.feed(calm_node(now=NOW + 5))
        await settle(pilot, lambda: shows(pilot, "HEALTHY 10 min 45 s"))
        assert not joined
        await pilot.press("3")
        await settle(pilot, lambda: shows(pilot, "── queues and IPC"))

    play(watch, script, first="rank 7")
    assert len(joined) == 1


def test_what_matters_is_shown_on_a_small_screen_too() -> None:
    text = draw(full(), SMALL)

    assert "── queues and IPC" in text
    assert "put blocked 4 min" in text
    assert "Queue pipe:951" not in text


def test_a_queue_that_comes_late_brings_its_panel() -> None:
    watch = FakeWatch(with_tables(leak(), queues=(), queue_records=(), exports=(), shared_files=(), shared_memory=()))

    async def script(pilot: Pilot[int]) -> None:
        assert not shows(pilot, "queues and IPC")
        watch.feed(leak())
        await settle(pilot, lambda: shows(pilot, "queues and IPC", "rank 0 → rank 1"))

    play(watch, script, size=LARGE, first="rank 1")


# Keys


def test_selecting_a_queue_selects_whom_to_look_at() -> None:
    watch = FakeWatch(full())

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("2", "down", "up")
        await settle(pilot, lambda: ("attend", WRITERS[0]) in watch.asked and watch.asked[-1] == ("attend", READER))
        await pilot.press("enter")
        await settle(pilot, lambda: shows(pilot, "details process uploader"))

    play(watch, script, first="Producer-2")


def test_enlarged_each_queue_has_a_line() -> None:
    async def script(pilot: Pilot[int]) -> None:
        await settle(pilot, lambda: shows(pilot, "loader index queue 0,2–3"))
        await pilot.press("2", "2")
        await settle(pilot, lambda: shows(pilot, *(f"loader index queue {number} " for number in range(4))))
        await pilot.press("escape")
        await settle(pilot, lambda: shows(pilot, "loader index queue 0,2–3"))

    play(FakeWatch(loader()), script, size=LARGE, first="train.py")


def test_a_row_that_did_not_change_is_not_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    draw_row = QueuesPanel.draw_row

    def note(panel: QueuesPanel, row: IpcRow, width: int) -> object:
        drawn.append(row.what)
        return draw_row(panel, row, width)

    monkeypatch.setattr(QueuesPanel, "draw_row", note)
    before = loader()
    results, *others = before.snapshot.queues
    fuller = msgspec.structs.replace(results, items=7, unread_bytes=4096)
    watch = FakeWatch(before)

    async def script(pilot: Pilot[int]) -> None:
        await settle(pilot, lambda: shows(pilot, "/dev/shm"))
        drawn.clear()
        watch.feed(with_tables(before, queues=(fuller, *others), taken_at=NOW + 1))
        await settle(pilot, lambda: shows(pilot, " 4.0K "))

    play(watch, script, size=LARGE, first="train.py")
    assert drawn == ["loader result queue"]


# Rows


def test_queues_that_are_alike_share_a_row_and_that_of_the_suspect_keeps_its_own() -> None:
    workers = [(rank, rank + 1 + n) for rank in RANKS for n in range(4)]
    queues = [
        queue(f"pipe:{pid}", items=2, unread=60, putters=(rank,), getters=(pid,), pid=rank) for rank, pid in workers
    ]
    first, second = rows_of(with_tables(node(hung=True), queues=tuple(queues)))

    assert (first.what, first.suspect, first.pid) == ("loader index queue 1", True, STUCK)
    assert (second.what, second.amount) == ("31 × loader index queue 0–3", "2")
    assert second.who == "rank 0–7 → dataloader worker 0–3"


def test_a_row_of_several_says_from_where_to_where_their_numbers_go() -> None:
    found = row_of(loader(), "loader index queue 0,2–3")

    assert (found.amount, found.size, found.who) == ("0", "0", "main → dataloader worker 0,2–3")


def test_a_number_with_an_unknown_part_is_unknown() -> None:
    results, *others = loader().snapshot.queues
    unread = msgspec.structs.replace(others[0], items=None, unread_bytes=None)
    found = row_of(with_tables(loader(), queues=(results, unread, *others[1:]), objects=()), "loader index queue 0,2–3")

    assert (found.amount, found.size) == ("–", "–")


def test_who_could_use_a_queue_is_in_brackets_where_nobody_was_seen_to() -> None:
    bare = queue("pipe:7", items=0, unread=0)
    ends = (Handle(pid=MAIN, object="pipe:7", reads=False), Handle(pid=WORKERS[0], object="pipe:7", writes=False))
    found = row_of(with_tables(loader(), queues=(bare,), handles=ends), "Queue pipe:7")

    assert found.who == "(main) → (dataloader worker 0)"


def test_a_lock_whose_holder_died_is_red_and_first() -> None:
    name = INDICES[0]
    lock = semaphores(9010)["read_lock"]
    taken = queue(name, items=1, unread=9, putters=(MAIN,), getters=(WORKERS[0],), read_locked=True)
    users = (MAIN, WORKERS[0])
    handles = tuple(Handle(pid=pid, object=lock) for pid in users)
    ledgers = tuple(SemaphoreUse(pid=pid, object=lock, count=0, max_value=1) for pid in users)
    first, *_ = rows_of(
        with_tables(loader(), queues=(*loader().snapshot.queues[2:], taken), handles=handles, semaphores=ledgers)
    )

    assert first.what == "loader index queue 0"
    assert ("get lock: its holder died", "bad") in first.notes


def test_in_a_job_that_gets_on_nobody_is_said_to_be_blocked() -> None:
    calm = msgspec.structs.replace(full().diagnosis, verdict=Verdict.SLOW)
    found = rows_of(msgspec.structs.replace(full(), diagnosis=calm))

    assert not [row.what for row in found if "blocked" in text_of(row.notes)]


def test_memory_that_is_held_by_the_dead_is_red() -> None:
    dead = tuple(msgspec.structs.replace(row, alive=row.pid != CONSUMER) for row in leak().snapshot.shims)
    first, *_ = rows_of(with_tables(leak(), shims=dead))

    assert (first.amount, first.size, first.who) == (str(KEPT), "2.5G", "rank 0 → rank 1")
    assert first.notes[0] == ("its receiver died", "bad")


def test_without_the_shim_only_the_count_of_blocks_is_known() -> None:
    found = row_of(with_tables(leak(), exports=(), imports=(), shims=(), queue_records=()), "CUDA memory")

    assert (found.amount, found.size, found.who) == (str(KEPT + 2), "–", "rank 0 → –")
    assert text_of(found.notes) == "location unknown"


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 200, 300])
@pytest.mark.parametrize("made", [loader, leak, full])
def test_columns_fit(made: object, width: int) -> None:
    rows = rows_of(made())  # type: ignore[operator]
    planned = plan(width, rows)

    assert {cells(line(row, planned)) for row in rows} == ({width} if width >= 60 else {cells(line(rows[0], planned))})


def test_dev_shm_has_a_row_where_the_job_has_much_in_it_or_where_there_is_nothing_else() -> None:
    tiny = [msgspec.structs.replace(row, storage_bytes=4096) for row in loader().snapshot.limits]
    files = tuple(msgspec.structs.replace(row, size_bytes=4096) for row in loader().snapshot.shared_files)
    little = with_tables(loader(), limits=tuple(tiny), shared_files=files)

    assert "/dev/shm" in [row.what for row in rows_of(loader())]
    assert "/dev/shm" not in [row.what for row in rows_of(little)]
    assert [row.what for row in rows_of(with_tables(little, queues=()))] == ["/dev/shm"]
    assert [row.what for row in rows_of(with_tables(little, queues=(), shared_memory=()))] == ["nothing now"]


# Since when somebody waits


def waits_of(observation: Observation, name: str, pid: int, *, to_put: bool) -> float | None:
    scene = Scene(observation)
    view = next(view for view in scene.ipc.queues if view.id == name)
    return waits_since(scene, view, pid, to_put=to_put)


def test_the_shim_tells_when_a_call_began() -> None:
    assert waits_of(full(), JOBS, WRITERS[0], to_put=True) == NOW - 252


def test_without_it_a_thread_that_waits_without_an_end_has_not_run_since() -> None:
    assert waits_of(with_tables(full(), queue_records=()), JOBS, WRITERS[0], to_put=True) == NOW - 252


def test_who_asks_again_every_few_seconds_is_not_said_to_wait_since_the_last_time() -> None:
    assert waits_of(loader(), INDICES[0], WORKERS[0], to_put=False) is None


def test_a_wait_to_get_is_no_wait_to_put() -> None:
    reads = Blocked(pid=MAIN, tid=MAIN, state="S", syscall="read", ran_at=NOW - 9, waits_on=("pipe:951",))
    observation = with_tables(full(), blocked=(reads,))

    assert waits_of(observation, "pipe:951", MAIN, to_put=False) == NOW - 9
    assert waits_of(observation, "pipe:951", MAIN, to_put=True) is None


# How often items are taken


def looks(*seconds: float) -> list[TrendPoint]:
    """The counts of the shim, as they were at these moments."""
    pictures = [(second, leak(now=NOW + second).snapshot) for second in seconds]
    return [TrendPoint(NOW + second, (), (), {}, queue_records=snapshot.queue_records) for second, snapshot in pictures]


def counted(*counts: dict[str, int]) -> list[TrendPoint]:
    """What the ledgers of the trainer said at each second, of queues by their names."""
    return [
        TrendPoint(NOW + second, (), (), {}, queues=tuple(
            QueueState(object=name, pid=MAIN, getters=(MAIN,), taken=taken) for name, taken in each.items()
        ))
        for second, each in enumerate(counts)
    ]  # fmt: skip


def test_a_rate_is_items_taken_over_the_seconds_between_two_looks() -> None:
    assert rates(looks(0, 10, 20)).by_queue[WEIGHTS] == pytest.approx(0.2)


@pytest.mark.parametrize("seconds", [(0, 1, 3), (0,), ()])
def test_over_few_seconds_there_is_none(seconds: tuple[float, ...]) -> None:
    assert rates(looks(*seconds)).by_queue == {}


def test_what_is_long_ago_does_not_count() -> None:
    assert rates(looks(0, 600, 605)).by_queue[WEIGHTS] == pytest.approx(0.2)


def test_the_ledgers_tell_it_where_there_is_no_shim() -> None:
    found = rates(counted(*({"pipe:7": 3 * second} for second in range(8))))

    assert found.by_queue == {"pipe:7": pytest.approx(3.0)}
    assert found.by_taker == {MAIN: pytest.approx(3.0)}


def test_a_new_queue_for_each_epoch_is_no_gap_in_what_the_trainer_takes() -> None:
    first, second = ([{name: 10 + 2 * step} for step in range(4)] for name in ("pipe:7", "pipe:8"))

    assert rates(counted(*first, {}, *second)).by_taker == {MAIN: pytest.approx(2.0)}


def test_two_queues_of_one_trainer_count_together() -> None:
    found = rates(counted(*({"pipe:7": step, "pipe:8": 2 * step} for step in range(6))))

    assert found.by_taker == {MAIN: pytest.approx(3.0)}


def test_a_healthy_job_shows_what_gets_through() -> None:
    moments = counted(*({RESULTS: 2 * step} for step in range(8)))
    observation = msgspec.structs.replace(loader(), trend=tuple(moments))
    (said,) = throughput(Scene(observation), 80, most=2)

    assert text_of(said) == "main gets 2.0 batches/s, 0 ready"


def test_a_hung_job_shows_what_got_through_before() -> None:
    moments = counted(*({RESULTS: min(20, 2 * step)} for step in range(60)))
    said = [f"main got 2.0 batches/s until {fmt.clock(moments[10].taken_at)}"]
    scene = found_at(moments[10].taken_at, moments)

    assert throughput_before(scene, most=2) == said
    assert throughput_before(found_at(moments[10].taken_at, moments[20:], scene), most=2) == said
    assert throughput_before(found_at(moments[10].taken_at, moments[20:]), most=2) == []
    assert throughput_before(found_at(moments[2].taken_at, moments, scene), most=2) == []


def found_at(since: float, moments: list[TrendPoint], before: Scene | None = None) -> Scene:
    """The loader's job, with a hang that began then."""
    finding = msgspec.structs.replace(hung().diagnosis.findings[0], since=since)
    now = loader()
    diagnosis = msgspec.structs.replace(now.diagnosis, findings=(finding,))
    return Scene(msgspec.structs.replace(now, diagnosis=diagnosis, trend=tuple(moments)), before)


def test_the_panel_shows_it_where_all_who_take_items_have_the_shim() -> None:
    watch = FakeWatch(leak())

    async def script(pilot: Pilot[int]) -> None:
        assert not shows(pilot, "gets/s")
        counts = tuple(looks(0, 10, 20))
        watch.feed(msgspec.structs.replace(leak(now=NOW + 20), trend=counts))
        await settle(pilot, lambda: shows(pilot, "gets/s", " 0.20 "))
        only_one = tuple(row for row in leak().snapshot.shims if row.pid == PRODUCER)
        watch.feed(msgspec.structs.replace(with_tables(leak(now=NOW + 25), shims=only_one), trend=counts))
        await settle(pilot, lambda: not shows(pilot, "gets/s"))

    play(watch, script, size=LARGE, first="queues and IPC")


# The page and the details


@pytest.mark.parametrize("made", [loader, leak, full])
def test_the_page_names_every_queue_and_every_block(made: object) -> None:
    observation: Observation = made()  # type: ignore[operator]
    text = page_of(observation)

    assert [row.object for row in observation.snapshot.queues if row.object not in text] == []
    assert [row.slot for row in observation.snapshot.exports if f"slot {row.slot}: " not in text] == []


def test_the_page_begins_with_what_a_suspect_does_not_read() -> None:
    first, second, third, *_ = page_of(loader()).splitlines()[1:]

    assert first.split(" · ")[0].strip() == "loader index queue 1"
    assert "2 items" in second
    assert third.strip() == "to be read by dataloader worker 1 (4121), which blocks the others"


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_page_fits(width: int) -> None:
    lines = [line for made in (loader, leak, full) for line in everything(Scene(made()), width)]

    assert max(map(cells, lines)) <= width


def test_without_the_shim_the_page_says_what_it_would_add() -> None:
    assert [what for what in WHAT_IT_ADDS if what not in page_of(loader(), 200)] == []
    assert WHAT_IT_ADDS[0] not in page_of(leak(), 200)


def test_the_page_says_why_queues_were_not_read() -> None:
    refused = tuple(Unknown(table="queues", pid=pid, reason="permission denied") for pid in WORKERS)

    assert "not read of dataloader worker 0–3: permission denied" in page_of(with_tables(loader(), unknowns=refused))


def test_the_page_of_a_job_that_shares_nothing() -> None:
    text = page_of(observe(training(2).snapshot, training(2).diagnosis))

    assert "none found" in text
    assert "could not be read" in text


def test_counts_of_the_shim_are_unknown_where_not_all_have_it() -> None:
    assert "240 put, – got, 3 lost" in page_of(full())


def test_the_details_tell_the_part_of_one_process() -> None:
    observation = full()
    scene = Scene(observation)
    said = text_of_lines(of_process(scene, scene.processes[WRITERS[0]], 120))

    assert (
        "puts into a queue made at job.py:9 in main (pipe:950) · 64 of 64 items · blocked in put for 4 min 12 s" in said
    )


def test_who_shares_nothing_has_no_such_section() -> None:
    scene = Scene(node(hung=False))

    assert of_process(scene, scene.processes[RANKS[0]], 120) == []
