"""Whether a thread gets anywhere, told from its counters and from looks at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from mpmon.diagnosis import Memo
from mpmon.diagnosis.progress.motion import Motion, motion, same_since
from mpmon.diagnosis.state.history import Sample, ThreadHistory
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import BY_CLOCK, ONLY_COUNTED, SOURCE_NOT_KNOWN, Blocked, Stack, variable_number
from tests.builders import (
    ROOT,
    START,
    blocked,
    frame,
    history,
    kernel_object,
    process,
    running,
    snapshot,
    stack,
    thread,
)

WORKER_LOOP = "torch/utils/data/_utils/worker.py:374 _worker_loop"
FETCH = "torch/utils/data/_utils/fetch.py:54 _MapDatasetFetcher.fetch"


def item(
    line: int, *, index: int, at: float, inner: str = "pick_patch", exact: bool = True, owns_gil: bool = True
) -> Stack:
    """A DataLoader worker inside `__getitem__(index)`, at some line of a function it called."""
    loops = msgspec.structs.replace(
        frame(f"job.py:{line} {inner}", arguments=index), plain={"i": index}, carried=("i",)
    )
    found = stack(
        "main", loops, frame("job.py:36 __getitem__", arguments=index), FETCH, WORKER_LOOP, at=at, exact=exact
    )
    return msgspec.structs.replace(found, owns_gil=owns_gil)


def loop(line: int, *, at: float, others: int = 0) -> Stack:
    """A training loop."""
    return stack("main", frame(f"train.py:{line} main", others=others), at=at)


def past(*samples: tuple[float, Stack, Blocked], ran_at: float, slices: tuple[int, ...] = ()) -> ThreadHistory:
    rows = [
        Sample(START + at, found, row, slices[n] if slices else n * 10) for n, (at, found, row) in enumerate(samples)
    ]
    counters = thread(slices=rows[-1].slices)
    return ThreadHistory(counters, thread(slices=0), START, START + ran_at, len(rows), tuple(rows))


def of(*samples: tuple[float, Stack, Blocked], ran_at: float | None = None, slices: tuple[int, ...] = ()) -> Motion:
    last = samples[-1][0]
    return motion(past(*samples, ran_at=last if ran_at is None else ran_at, slices=slices), START + last)


def test_one_that_was_never_seen() -> None:
    assert motion(None, START) is Motion.UNKNOWN


def test_one_that_did_not_run_is_frozen() -> None:
    assert of(
        (0, item(9, index=1, at=0), blocked("futex")), (6, item(9, index=1, at=0), blocked("futex")), ran_at=1
    ) is (Motion.NOT_SCHEDULED)


def test_two_looks_do_not_prove_that_one_who_runs_gets_nowhere() -> None:
    assert of(*((at, item(9, index=1, at=at), running()) for at in (0.0, 5.0))) is Motion.UNKNOWN


def test_looks_of_one_moment_prove_nothing() -> None:
    assert of(*((at, item(9, index=1, at=at), running()) for at in (0.0, 1.0, 2.0, 3.0))) is Motion.UNKNOWN


def test_one_that_walks_around_inside_one_call_spins() -> None:
    assert of(*((at, item(28 + int(at) % 4, index=37, at=at), running()) for at in range(8))) is Motion.BUSY_LOOP


def test_one_whose_loop_carries_new_values_on_moves() -> None:
    def at_work(at: int, **inside: Any) -> Stack:
        found = item(28 + at % 2, index=37, at=at)
        inner, *outer = found.frames
        return msgspec.structs.replace(found, frames=(msgspec.structs.replace(inner, **inside), *outer))

    def motion_of(inside: Callable[[int], dict[str, Any]]) -> Motion:
        return of(*((float(at), at_work(at, **inside(at)), running()) for at in range(8)))

    assert motion_of(lambda at: {"plain": {"i": at}}) is Motion.PROGRESSING
    assert motion_of(lambda at: {"plain": {"i": at % 4}}) is Motion.BUSY_LOOP
    assert motion_of(lambda at: {"plain": {"i": 0, "draw": at}}) is Motion.BUSY_LOOP
    assert motion_of(lambda at: {"plain": {"i": 0, "draw": at}, "carried": SOURCE_NOT_KNOWN}) is Motion.PROGRESSING
    assert motion_of(lambda _: {"carried": ("i", BY_CLOCK)}) is Motion.PROGRESSING
    assert motion_of(lambda _: {"carried": None}) is Motion.PROGRESSING


def carrying(at: int, names: tuple[str, ...], *, calls: bool = False, turn: int | None = None, **more: Any) -> Stack:
    """In a task whose loop carries these on, in the middle of a call of it, or not; in another turn each time."""
    found = item(28 + at % 2, index=37, at=at)
    loops, *outer = found.frames
    loops = msgspec.structs.replace(loops, carried=names, plain={"x": at if turn is None else turn}, line=28)
    inner = [frame("job.py:50 check", arguments=at)] if calls else []
    return msgspec.structs.replace(found, frames=(*inner, loops, *outer), **more)


def motion_of(make: Callable[[int], Stack]) -> Motion:
    return of(*((float(at), msgspec.structs.replace(make(at), turning=(3,) * (at == 5)), running()) for at in range(8)))


def test_one_whose_loop_carries_an_object_on_moves_if_that_keeps_changing() -> None:
    heap = variable_number("heap")
    assert motion_of(lambda at: carrying(at, ("heap",), contents=((3, heap, at),))) is Motion.PROGRESSING
    assert motion_of(lambda at: carrying(at, ("heap",), contents=((3, heap, 7), (3, 9, at)))) is Motion.BUSY_LOOP

    def tries(at: int) -> dict[str, Any]:
        return {"contents": ((3, heap, at),), "counts": ((3, heap, 0, {".tries": at}),)}

    assert motion_of(lambda at: carrying(at, ("heap",), **tries(at))) is Motion.PROGRESSING
    assert motion_of(lambda at: carrying(at, ("heap", f"{ONLY_COUNTED}.tries"), **tries(at))) is Motion.BUSY_LOOP


@pytest.mark.parametrize("contents", [None, (), ((3, variable_number("heap"), -1),)], ids=["none", "other", "hidden"])
def test_what_was_not_read_may_change(contents: tuple[tuple[int, int, int], ...] | None) -> None:
    assert motion_of(lambda at: carrying(at, ("heap",), contents=contents)) is Motion.PROGRESSING


def test_one_turn_may_take_long() -> None:
    """Nothing of the loop changes while it is in a call, and it may be the same turn; unless it was seen to turn."""
    assert motion_of(lambda at: carrying(at, (), calls=True, turn=1)) is Motion.PROGRESSING
    assert motion_of(lambda at: carrying(at, (), calls=True)) is Motion.BUSY_LOOP


def test_native_code_that_computes_without_the_gil_moves() -> None:
    samples = ((float(at), item(28, index=37, at=at, owns_gil=False), running()) for at in range(8))
    assert of(*samples) is Motion.PROGRESSING


def test_one_that_gives_the_gil_away_at_times_spins() -> None:
    samples = ((float(at), item(28 + at % 2, index=37, at=at, owns_gil=at != 3), running()) for at in range(8))
    assert of(*samples) is Motion.BUSY_LOOP


def test_native_code_that_keeps_the_gil_moves_and_a_loop_in_one_line_spins() -> None:
    samples = [(float(at), item(28, index=37, at=at), running()) for at in range(8)]
    assert of(*samples) is Motion.PROGRESSING
    samples[5] = (5.0, msgspec.structs.replace(samples[5][1], turning=(0,)), running())
    assert of(*samples) is Motion.BUSY_LOOP


def test_one_that_tries_again_and_again_naps() -> None:
    sleeping = blocked("clock_nanosleep", wakes_at=START)
    assert of(*((at, item(20, index=37, at=at, inner="download"), sleeping) for at in range(8))) is Motion.POLLING


def test_a_worker_with_another_item_moves() -> None:
    assert of(*((at, item(30, index=int(at), at=at), running()) for at in range(8))) is Motion.PROGRESSING


def test_a_training_loop_at_other_lines_moves() -> None:
    assert of(*((at, loop(20 + int(at), at=at), running()) for at in range(8))) is Motion.PROGRESSING


def test_a_training_loop_with_other_variables_moves() -> None:
    assert of(*((at, loop(20, at=at, others=int(at)), running()) for at in range(8))) is Motion.PROGRESSING


def paused(at: float) -> Blocked:
    return blocked("clock_nanosleep", wakes_at=START + at + 0.2)


def test_one_whose_variables_only_take_turns_between_the_same_objects_naps() -> None:
    """A list made anew each time lies where the one before the last lay."""
    assert (
        of(*((at, loop(20, at=at, others=int(at) % 2), paused(at)) for at in map(float, range(10)))) is Motion.POLLING
    )
    assert (
        of(*((at, loop(20, at=at, others=int(at)), paused(at)) for at in map(float, range(10)))) is Motion.PROGRESSING
    )


def test_a_training_loop_that_pauses_at_two_lines_in_turn_moves() -> None:
    assert of(*((at, loop(20 + int(at) % 2, at=at), paused(at)) for at in map(float, range(10)))) is Motion.PROGRESSING


def test_a_program_on_the_command_line_that_counts_moves() -> None:
    def typed(at: float, count: int) -> Stack:
        return stack("main", frame("<string>:1 <listcomp>", others=count), "<string>:1 <module>", at=at)

    assert of(*((at, typed(at, int(at)), paused(at)) for at in map(float, range(10)))) is Motion.PROGRESSING
    assert of(*((at, typed(at, 1), paused(at)) for at in map(float, range(10)))) is Motion.POLLING


def test_a_loop_over_a_range_that_advances_after_each_pause_will_end() -> None:
    def turned(at: float, position: int) -> Stack:
        return msgspec.structs.replace(loop(20, at=at), turns=((7, position, 0),))

    assert of(*((at, turned(at, int(at)), paused(at)) for at in map(float, range(10)))) is Motion.PROGRESSING
    assert of(*((at, turned(at, 3), paused(at)) for at in map(float, range(10)))) is Motion.POLLING


def test_a_training_loop_that_nothing_changes_in_spins() -> None:
    assert of(*((at, loop(20, at=at), running()) for at in range(8))) is Motion.BUSY_LOOP


def test_one_that_was_woken_moves() -> None:
    forever = blocked("poll", "pipe:7")
    assert of(*((at, loop(20, at=at), forever) for at in range(8))) is Motion.PROGRESSING


def test_one_whose_wait_has_a_time_limit_wakes_by_itself() -> None:
    every_second = blocked("poll", "pipe:7", timeout_s=1.0)
    assert of(*((at, loop(20, at=at), every_second) for at in range(8)), slices=tuple(range(8))) is Motion.POLLING


def test_one_that_ran_more_often_than_its_time_limit_explains_was_given_something() -> None:
    every_five = blocked("poll", "pipe:7", timeout_s=5.0)
    slices = tuple(100 * n for n in range(8))
    assert of(*((at, loop(20, at=at), every_five) for at in range(8)), slices=slices) is Motion.PROGRESSING


def test_one_that_waits_anew_long_before_its_deadline_was_woken() -> None:
    """As a rank in collectives of half an hour at most; back in the very same wait it has the same deadline."""

    def waits(until: float) -> Blocked:
        return blocked("futex", "futex:4100:0x70", wakes_at=START + until)

    assert of(*((at, loop(20, at=at), waits(1800 + at)) for at in range(8))) is Motion.PROGRESSING
    assert of(*((at, loop(20, at=at), waits(1800)) for at in range(8))) is Motion.POLLING
    assert of(*((at, loop(20, at=at), waits(at + 0.5)) for at in range(8))) is Motion.POLLING


def later(found: ThreadHistory, *, ran_s: float, slices: int) -> ThreadHistory:
    """The same some time after its last look, having run so much since."""
    last = found.samples[-1]
    counters = thread(run_s=last.run_ns / 1e9 + ran_s, slices=last.slices + slices)
    return msgspec.structs.replace(found, thread=counters, ran_at=START + 60)


def test_one_that_computes_since_it_was_seen_twice_moves() -> None:
    seen = past(*((at, loop(20, at=at), running()) for at in (0.0, 5.0)), ran_at=5)

    assert motion(later(seen, ran_s=4.0, slices=4000), START + 10) is Motion.PROGRESSING
    assert motion(later(seen, ran_s=0.1, slices=4000), START + 10) is Motion.UNKNOWN


def test_one_that_computes_now_naps_no_more() -> None:
    every_second = blocked("poll", "pipe:7", timeout_s=1.0)
    seen = past(*((at, loop(20, at=at), every_second) for at in range(8)), ran_at=7, slices=tuple(range(8)))

    assert motion(later(seen, ran_s=2.0, slices=20), START + 12) is Motion.PROGRESSING
    assert motion(later(seen, ran_s=0.0, slices=5), START + 12) is Motion.POLLING


def test_one_that_only_took_up_its_wait_again_since_it_was_seen_does_not_move() -> None:
    every_five = blocked("poll", "pipe:7", timeout_s=5.0)
    samples = [(float(at), loop(20 + at, at=at), running()) for at in range(6)]
    seen = past(*samples, (6.0, loop(40, at=6), every_five), ran_at=6, slices=(*range(0, 60, 10), 60))

    assert motion(later(seen, ran_s=0.0, slices=1), START + 10) is Motion.POLLING
    assert motion(later(seen, ran_s=0.0, slices=3), START + 10) is Motion.PROGRESSING


def test_one_that_runs_on_since_it_was_seen_in_a_timed_wait_waits_no_more() -> None:
    waits = blocked("poll", "pipe:7", timeout_s=5.0)
    seen = past(*((at, loop(5, at=at), waits) for at in (0.0, 5.0, 10.0, 15.0)), ran_at=80, slices=(1, 2, 3, 4))
    naps = msgspec.structs.replace(seen, thread=thread(slices=30, run_s=1.0))
    assert motion(naps, START + 80) is Motion.POLLING
    runs = msgspec.structs.replace(seen, thread=thread(slices=8000, run_s=1.0))
    assert motion(runs, START + 80) is Motion.PROGRESSING


def test_a_stack_that_mixes_two_moments_does_not_count() -> None:
    samples = [(float(at), item(30 + at % 2, index=37, at=at), running()) for at in range(8)]
    samples[4] = (4.0, item(30, index=99, at=4, exact=False), running())
    assert of(*samples) is Motion.BUSY_LOOP


def test_one_that_goes_to_and_fro_between_two_places_moves() -> None:
    """A trainer collects and learns in turn; whoever looks seldom sees now this and now that."""
    learns = ("torch/autograd/graph.py:979 _engine_run_backward", "site-packages/rl/ppo.py:275 train")
    collects = ("multiprocessing/connection.py:395 _recv", "site-packages/rl/ppo.py:218 collect")

    def seen(at: int) -> Stack:
        phase = f"site-packages/rl/algorithm.py:{337 if at % 2 else 324} learn"
        return stack("main", *(learns if at % 2 else collects), phase, "job.py:34 main", at=at, exact=False)

    assert motion_of(seen) is Motion.PROGRESSING


@pytest.mark.parametrize(
    ("grows", "found"), [(True, Motion.PROGRESSING), (False, Motion.BUSY_LOOP)], ids=["new values", "the same ones"]
)
def test_top_level_code_that_is_seen_at_one_place_by_chance_moves_if_what_it_leads_to_does(
    *, grows: bool, found: Motion
) -> None:
    def seen(at: int) -> Stack:
        calls = ("multiprocessing/connection.py:395 _recv", "site-packages/rl/ppo.py:218 collect", "job.py:34 main")
        inside = ((0, 1, 77), (1, 2, at if grows else 5))
        return msgspec.structs.replace(stack("main", *calls, at=at), turns=(), contents=inside)

    assert motion_of(seen) is found


def test_a_wait_that_is_taken_up_again_has_other_deadlines_inside_of_the_library() -> None:
    def waits(at: float) -> Stack:
        select = frame("lib/selectors.py:415 select", arguments=int(at * 7), others=int(at * 3))
        return stack(
            "main", select, frame("multiprocessing/connection.py:947 wait", arguments=int(at)), "train.py:7 main", at=at
        )

    polls = blocked("poll", "pipe:7", timeout_s=1.0)
    assert of(*((at, waits(at), polls) for at in range(8)), slices=tuple(range(8))) is Motion.POLLING


def test_since_when_it_stands() -> None:
    samples = [(float(at), item(30, index=min(at, 3), at=at), running()) for at in range(8)]
    assert same_since(past(*samples, ran_at=7)) == START + 3


def test_since_when_one_stands_that_did_not_run() -> None:
    assert same_since(past((0, item(9, index=1, at=0), blocked("futex")), ran_at=-60)) == START - 60


@pytest.mark.parametrize(("limit", "stands_s"), [(2**64 - 1, 2.0), (1000, 8.0)])
def test_an_event_loop_without_timers_stands_since_something_last_came(limit: int, stands_s: float) -> None:
    """It is seen running once, at the same place as in its waits before and after that."""
    in_loop = ("/usr/lib/python3.12/asyncio/base_events.py:1910 _run_once", "serve.py:40 <module>")

    def waits(second: int) -> Blocked:
        ran_at = START + (6.0 if second >= 6 else 0.0)
        return blocked("epoll_wait", "socket:1", args=(5, 0, 1, limit), ran_at=ran_at)

    rounds = [
        snapshot(
            process(), thread(slices=1 + (second >= 4) + 4 * (second >= 6)), stack("main", *in_loop, at=second),
            running() if second in (4, 5) else waits(second), kernel_object("socket:1"), at=float(second),
        )
        for second in range(9)
    ]  # fmt: skip
    job = JobState(history(*rounds), rounds[-1], Memo())
    assert job.now - job.stands_since((ROOT, ROOT)) == pytest.approx(stands_s, abs=0.1)
