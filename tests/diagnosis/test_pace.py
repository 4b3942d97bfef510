"""How a job that works gets on: rates, shares, and when a rank is called the bottleneck."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable

import msgspec
import pytest

from mpmon.diagnosis.findings import Diagnosis, Pause, Verdict
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.throughput.pace import Progress, in_words, progress
from mpmon.model import CallPlace, FlightRecord, GroupProgress, QueueState, Row, Snapshot, Spot, Stack
from mpmon.reports import document, text
from mpmon.session.recording import read_recording
from mpmon.session.watch import Observer
from tests.builders import ROOT, START, blocked, diagnosed, history, holds, process, snapshot, stack, thread
from tests.hangs.expected import HOME

RANKS = range(4)

PLACES: dict[str, CallPlace] = {
    "work": ("clock_nanosleep", 0x7FFC_1000, 0x7F11_0230),
    "ranks": ("futex", 0x7FFC_0800, 0x7F11_0202),
    "data": ("poll", 0x7FFC_0900, 0x7F11_0007),
    "pipe": ("read", 0x7FFC_0700, 0x7F11_0000),
    "computes": ("running", 0, 0),
}

FRAMES = {
    "work": ("train.py:22 train",),
    "ranks": ("torch/autograd/graph.py:824 _engine_run_backward", "torch/_tensor.py:581 backward", "train.py:25 train"),
    "data": ("torch/utils/data/dataloader.py:1275 _try_get_data", "train.py:20 train"),
    "pipe": ("train.py:30 train",),
}

Does = Callable[[int, int], str]
"""What a rank does in a second."""


def pid_of(rank: int) -> int:
    return 4200 + rank


def frames(rank: int, what: str, second: float, *more: str) -> Stack:
    """Those of a look that found it there while it did not run."""
    row = stack("main", *(more or FRAMES[what]), pid=pid_of(rank), at=second)
    return msgspec.structs.replace(row, place=PLACES[what])


def rounds(
    does: Does,
    seconds: int = 60,
    *,
    taught: tuple[str, ...] = ("work", "ranks", "data", "pipe"),
    stands: Callable[[int, int], bool] = lambda *_: False,
    also: Callable[[int], Iterable[Row]] = lambda _: (),
) -> list[Snapshot]:
    """Of four ranks; in the first rounds looks find each of them in these places. Who `stands` in a second does not run in it."""
    slices = dict.fromkeys(RANKS, 10)
    made: list[Snapshot] = []
    for second in range(seconds):
        rows: list[Row] = [process(), *also(second)]
        for rank in RANKS:
            pid = pid_of(rank)
            slices[rank] += 0 if stands(rank, second) else 7
            rows += [process(pid, parent=ROOT, environment={"RANK": str(rank)}), thread(pid, slices=slices[rank])]
            rows.append(Spot(pid=pid, place=PLACES[does(rank, second)], slices=slices[rank]))
            if second < 3 * len(taught):
                rows += [frames(rank, taught[second // 3], second), blocked("futex", pid=pid, args=(second,))]
        made.append(snapshot(*rows, at=float(second)))
    return made


def of(made: list[Snapshot]) -> Progress:
    return progress(JobState(history(*made), made[-1]))


def often(share: float, what: str, otherwise: str, *, seed: int = 1) -> Does:
    """By chance in so many of the seconds."""

    def does(rank: int, second: int) -> str:
        return what if random.Random(f"{seed} {rank} {second}").random() < share else otherwise

    return does


def but(slow: int, its: Does, others: Does) -> Does:
    """One rank does something else than the others."""
    return lambda rank, second: its(rank, second) if rank == slow else others(rank, second)


WAITING = often(0.45, "ranks", "work")
STRAGGLER = but(2, often(0.05, "ranks", "work"), WAITING)


# Who is called the bottleneck


def test_the_others_wait_for_the_one_that_hardly_waits() -> None:
    found = of(rounds(STRAGGLER)).bottleneck
    assert found is not None
    assert (found.pids, found.what, str(found.place)) == ((pid_of(2),), "work", "train.py:22 in train")
    assert found.summary == "the others wait for rank 2 (asleep in train() at train.py:22)"


def test_of_one_that_computes_no_line_is_told_that_no_look_has_shown() -> None:
    found = of(rounds(but(2, often(0.05, "ranks", "computes"), WAITING))).bottleneck
    assert found is not None
    assert (found.pids, found.what, found.summary) == ((pid_of(2),), "work", "the others wait for rank 2")


def test_it_may_wait_for_its_loader_itself() -> None:
    found = of(rounds(but(1, often(0.7, "data", "work"), WAITING))).bottleneck
    assert found is not None
    assert (found.pids, found.what) == ((pid_of(1),), "data")
    assert found.summary == "the others wait for rank 1, which waits for its batches most of the time"


def test_where_all_wait_for_batches_none_of_them_is_the_bottleneck() -> None:
    found = of(rounds(often(0.7, "data", "work"))).bottleneck
    assert found is not None
    assert (found.pids, found.what) == (tuple(map(pid_of, RANKS)), "data")
    assert found.summary == "all ranks wait for batches most of the time"


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_ranks_that_wait_alike_have_no_bottleneck(share: float, seed: int) -> None:
    assert of(rounds(often(share, "ranks", "work", seed=seed))).bottleneck is None


def of_ten(data: int, work: int) -> Does:
    """So many samples of ten wait for batches or work; what the others do is not known: no frames were read there."""
    return lambda _, second: "data" if second % 10 < data else "work" if second % 10 < data + work else "pipe"


def test_samples_that_nothing_explains_count_against_a_bottleneck() -> None:
    sure, unsure = (of(rounds(does, taught=("work", "data"))) for does in (of_ten(6, 1), of_ten(4, 1)))
    assert sure.bottleneck is not None
    assert sure.bottleneck.what == "data"
    assert unsure.bottleneck is None
    assert {row.waits_for_data for row in sure.paces} == {None}


def test_where_all_wait_for_batches_the_line_of_their_loaders_is_told() -> None:
    def loads(_: int) -> Iterable[Row]:
        fetches = ("train.py:9 Images.__getitem__", "torch/utils/data/_utils/worker.py:349 _worker_loop")
        worker = process(4300, parent=pid_of(0)), stack("main", *fetches, pid=4300)
        return *worker, thread(4300), blocked("clock_nanosleep", pid=4300, ran_at=START)

    found = of(rounds(of_ten(8, 2), also=loads)).bottleneck
    assert found is not None
    assert (
        found.summary
        == "all ranks wait for batches most of the time (loader workers in Images.__getitem__() at train.py:9)"
    )


def test_no_rank_stands_for_the_others_before_they_can_be_compared() -> None:
    assert of(rounds(STRAGGLER, seconds=12)).words.endswith("12 of 20 samples taken to compare them")


def test_ranks_that_take_turns_in_being_late_have_none() -> None:
    turns = of(rounds(lambda rank, second: "work" if second % 4 == rank else "ranks"))
    assert turns.bottleneck is None
    assert [row.waits_for_ranks for row in turns.paces] == [0.75] * 4


def test_ranks_that_all_wait_for_their_gpus_have_none() -> None:
    found = of(rounds(lambda *_: "computes"))
    assert found.bottleneck is None
    assert [(row.works, row.waits_for_ranks) for row in found.paces] == [(1.0, 0.0)] * 4


def test_few_looks_make_no_bottleneck() -> None:
    assert of(rounds(STRAGGLER, seconds=18)).bottleneck is None


def test_one_of_whom_too_little_is_known_makes_all_others_unsure() -> None:
    does = but(3, lambda *_: "ranks", STRAGGLER)
    untold = rounds(does, taught=("work", "data"))
    assert of(untold).bottleneck is None
    assert [row.waits_for_ranks for row in of(untold).paces if row.rank == 3] == [None]


def test_a_wait_of_which_the_reader_does_not_tell_whose_it_is_is_nobodys() -> None:
    (first, *_) = of(rounds(often(0.4, "pipe", "work"))).paces
    assert (first.waits_for_ranks, first.waits_for_data) == (0.0, 0.0)
    assert first.works is not None
    assert first.works < 0.8


# What looks tell of a place


def looked_at(made: list[Snapshot], what: str, *line: str, seconds: range) -> list[Snapshot]:
    """With some more rounds in which looks found each rank there."""
    for second in seconds:
        rows = tuple(frames(rank, what, second, *line) for rank in RANKS)
        made[second] = msgspec.structs.replace(made[second], stacks=rows)
    return made


def test_a_place_in_which_looks_differ_tells_nothing() -> None:
    found = of(looked_at(rounds(STRAGGLER), "ranks", *FRAMES["data"], seconds=range(20, 21)))
    assert [row.works for row in found.paces[:2]] == [None, None]


@pytest.mark.parametrize(("times", "line"), [(1, 22), (3, None), (9, 27)])
def test_the_line_is_told_at_which_most_looks_found_it(times: int, line: int | None) -> None:
    found = of(looked_at(rounds(STRAGGLER), "work", "train.py:27 train", seconds=range(20, 20 + times))).bottleneck
    assert found is not None
    assert (found.place.line if found.place else None) == line
    assert found.summary.startswith("the others wait for rank 2")


def test_few_looks_tell_no_line() -> None:
    made = looked_at(rounds(STRAGGLER, taught=("ranks",)), "work", seconds=range(20, 22))
    found = of(made).bottleneck
    assert found is not None
    assert found.place is None


def test_what_another_process_with_the_same_pid_did_is_forgotten() -> None:
    made = rounds(STRAGGLER)
    last = made[-1]
    again = tuple(msgspec.structs.replace(row, start_time=START + 59) for row in last.processes)
    seen = history(*made, msgspec.structs.replace(last, processes=again, taken_at=last.taken_at + 1))
    assert seen.spots.places == {}


# Pauses


def long_pause(rank: int, second: int) -> bool:
    """Rank 0 evaluates, the others stand."""
    return 30 < second <= 50 and rank != 0


EVALUATES = but(0, often(0.45, "ranks", "work", seed=3), WAITING)


def in_pause(does: Does) -> Does:
    return lambda rank, second: ("ranks" if rank else "computes") if 30 < second <= 50 else does(rank, second)


def test_while_one_rank_evaluates_the_others_pause_and_that_makes_no_bottleneck() -> None:
    found = of(rounds(in_pause(EVALUATES), 70, stands=long_pause))
    assert found.bottleneck is None
    assert found.pause == Pause(began=START + 30, ended=START + 50, ran=(pid_of(0),))
    assert [row.samples for row in found.paces] == [40] * 4


def test_a_straggler_shows_besides_a_pause() -> None:
    found = of(rounds(in_pause(STRAGGLER), 80, stands=long_pause))
    assert found.bottleneck is not None
    assert found.bottleneck.pids == (pid_of(2),)


def test_steps_in_which_all_stand_are_no_pauses() -> None:
    found = of(rounds(STRAGGLER, 90, stands=lambda _, second: second % 10 > 5))
    assert found.pause is None
    assert [row.samples for row in found.paces] == [60] * 4


def test_what_is_short_is_no_pause() -> None:
    assert of(rounds(STRAGGLER, stands=lambda _, second: second in (30, 31))).pause is None


# How fast


def results(second: int, *taken: int | None) -> Iterable[Row]:
    """The queues from which ranks take, each with a worker, and how much was taken so far."""
    for rank, count in enumerate(taken):
        worker, pipe = 4300 + rank, f"pipe:{rank + 7}"
        yield process(worker, parent=pid_of(rank), name="pt_data_worker")
        yield holds(worker, pipe)
        yield QueueState(
            object=pipe, pid=pid_of(rank), getters=(pid_of(rank),), putters=(worker,), taken=count,
            ledgers=() if count is None else ((pid_of(rank), -count),),
        )  # fmt: skip


def test_batches_a_second_of_all_ranks() -> None:
    made = rounds(STRAGGLER, also=lambda second: results(second, *(8 * second + 1 for _ in RANKS)))
    found = of(made)
    assert [row.batches_per_s for row in found.paces] == [pytest.approx(8.0)] * 4
    assert found.words == (
        "4 ranks make progress: 8.0 batches/s each; the others wait for rank 2 (asleep in train() at train.py:22)"
    )


def test_where_the_batches_of_one_are_not_known_no_number_is_told() -> None:
    made = rounds(WAITING, also=lambda second: results(second, *(8 * second + 1 for _ in range(3)), None))
    found = of(made)
    assert found.paces[3].batches_per_s is None
    assert "batches" not in found.words


def test_collectives_a_second_where_there_are_no_loaders() -> None:
    def recorders(second: int) -> list[Row]:
        begun = 12 * second
        groups = (GroupProgress(backend="gloo", name="0", enqueued=begun),)
        return [FlightRecord(rank=rank, read_at=START + second, groups=groups) for rank in RANKS]

    found = of(rounds(WAITING, also=recorders))
    assert [row.collectives_per_s for row in found.paces] == [pytest.approx(12.0)] * 4
    assert found.words == "4 ranks make progress: 12.0 collectives/s each"


def test_a_job_without_ranks_has_no_pace() -> None:
    assert of([snapshot(process(), at=float(second)) for second in range(5)]) == Progress()


# A real job


def test_a_real_job_with_a_slow_rank() -> None:
    observer = Observer()
    *_, last = map(observer.see, read_recording(HOME / "ok-straggler" / "recording.jsonl.gz"))
    said = last.diagnosis
    assert said.because == (
        "4 ranks make progress: 5.6 batches/s each; the others wait for rank 2 (asleep in main() at job.py:49)"
    )
    assert said.bottleneck is not None
    (slow,) = [row for row in said.paces if row.pid in said.bottleneck.pids]
    assert (slow.rank, slow.works, slow.waits_for_ranks) == (2, pytest.approx(1, abs=0.05), pytest.approx(0, abs=0.05))
    report = json.loads(document.render(last))
    assert [row["batches_per_s"] for row in report["paces"]] == [pytest.approx(5.6, abs=0.1)] * 4
    assert report["bottleneck"]["place"]["line"] == 49
    assert report["pause"] is None
    shares = [
        "  rank 2 works 96 %, waits for ranks 4 % (22 samples).",
        "  ranks 0-1 and 3 work 23 %, wait for ranks 77 %.",
    ]
    assert text.render(last).splitlines()[2:4] == shares


# In words


def test_the_bottleneck_is_told_first_with_how_many_looks_all_that_rests_on() -> None:
    found = of(rounds(but(2, lambda *_: "work", lambda _, second: "ranks" if second % 2 else "work")))
    said = Diagnosis(
        verdict=Verdict.HEALTHY, paces=found.paces, bottleneck=found.bottleneck,
        pause=Pause(began=START - 30, ended=START - 18, ran=(pid_of(0),)),
    )  # fmt: skip
    assert in_words(said, START + 59) == [
        "rank 2 works 100 %, waits for ranks 0 % (60 samples)",
        "ranks 0-1 and 3 work 50 %, wait for ranks 50 %",
        "all ranks but rank 0 stood still for 12 s, 1 min 17 s ago",
    ]


def test_ranks_of_which_some_work_much_more_are_told_apart() -> None:
    """Also where no bottleneck is told: `36-100 %` would hide who works all the time."""
    found = of(rounds(but(2, lambda *_: "work", lambda _, second: "ranks" if second % 2 else "work")))
    said = in_words(Diagnosis(verdict=Verdict.HEALTHY, paces=found.paces), START + 59)
    assert [text.partition(",")[0] for text in said] == ["rank 2 works 100 %", "ranks 0-1 and 3 work 50 %"]


def test_only_a_job_that_is_healthy_is_said_to_have_a_pace() -> None:
    stands = rounds(lambda *_: "work", 12, stands=lambda *_: True)
    assert diagnosed(stands).paces == ()


def test_of_one_that_ran_after_its_frames_were_read_no_wait_is_told_that_is_not_theirs() -> None:
    """Its frames are those of a sleep, the kernel has it in a futex by now: nobody knows whose."""

    def rows(second: int) -> tuple[Row, ...]:
        sleeps = stack("main", f"train.py:{20 + second % 2} train", at=second - 0.5)
        waits = blocked("futex", f"futex:{ROOT}:0x10", ran_at=START + second)
        return process(), sleeps, waits, thread(slices=10 * second, run_s=0.02 * second)

    told = diagnosed([snapshot(*rows(second), at=float(second)) for second in range(14)])
    assert told.processes[0].does == "running in train() at train.py:21"


def test_a_rank_whose_batches_are_counted_does_not_stand_still_in_its_wait_for_them() -> None:
    def rows(second: int) -> tuple[Row, ...]:
        waits = stack("main", "torch/utils/data/dataloader.py:1275 _try_get_data", "train.py:20 train")
        rank = process(environment={"RANK": "0"}), waits, blocked("poll", "pipe:7", ran_at=START, timeout_s=5.0)
        worker = process(4300, parent=ROOT, name="pt_data_worker"), thread(4300, slices=9 * second, run_s=0.5 * second)
        taken = QueueState(
            object="pipe:7",
            pid=ROOT,
            getters=(ROOT,),
            putters=(4300,),
            taken=2 * second,
            ledgers=((ROOT, -2 * second),),
        )
        return *rank, *worker, taken, holds(4300, "pipe:7"), thread(slices=2 * second, run_s=0.01 * second)

    told = diagnosed([snapshot(*rows(second), at=float(second)) for second in range(30)])
    assert (told.verdict, told.paces[0].batches_per_s) == (Verdict.HEALTHY, 2.0)
    assert (told.processes[0].mood, told.processes[0].still_since) == ("working", None)
