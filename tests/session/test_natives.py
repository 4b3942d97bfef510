"""Whose C and C++ frames are read, and when again."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from mpmon.model import NativeFrame, NativeStack, Snapshot, Thread
from mpmon.probes import native
from mpmon.probes.files import Proc
from mpmon.session.natives import MOST_SAMPLED, NativeLooks, all_threads

ROOT, WORKER, HELPER = 10, 20, 21


def thread(pid: int, tid: int, slices: int = 1) -> Thread:
    return Thread(pid=pid, tid=tid, name="python", run_ns=1000 * slices, slices=slices)


THREADS = (thread(ROOT, ROOT), thread(WORKER, WORKER), thread(WORKER, HELPER))


class Asked:
    """Stands for the probe: notes whom it was asked about."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.about: list[tuple[int, tuple[int, ...]]] = []
        self.end = "start"
        self.refusal: OSError | None = None
        self.sampled: list[tuple[int, tuple[int, ...]]] = []
        monkeypatch.setattr(native, "native_stacks", self._native_stacks)
        monkeypatch.setattr(native, "native_samples", self._native_samples)

    def _native_stacks(self, _proc: Proc, pid: int, tids: Sequence[int], now: float) -> tuple[NativeStack, ...]:
        self.about.append((pid, tuple(tids)))
        if self.refusal:
            raise self.refusal
        frames = (NativeFrame(offset=1, how="registers"),)
        return tuple(NativeStack(pid=pid, tid=tid, taken_at=now, frames=frames, end=self.end) for tid in tids)

    def _native_samples(self, _proc: Proc, pid: int, tids: Sequence[int], now: float) -> tuple[NativeStack, ...]:
        self.sampled.append((pid, tuple(tids)))
        if self.refusal:
            raise self.refusal
        frames = (NativeFrame(offset=1, how="sample"),)
        return tuple(NativeStack(pid=pid, tid=tid, taken_at=now, frames=frames, end="start") for tid in tids)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


class Rounds:
    """The rounds of one job."""

    def __init__(self, looks: NativeLooks) -> None:
        self.looks = looks
        self.at = 1.0

    def round(self, wanted: dict[int, set[int]], *threads: Thread) -> Snapshot:
        self.at += 1.0
        begun = Snapshot(
            taken_at=self.at, root_pid=ROOT, root_start_time=0.0, threads=threads or THREADS,
            native_stacks=self.looks.still_true(threads or THREADS),
        )  # fmt: skip
        return self.looks.add(begun, wanted)


@pytest.fixture
def rounds() -> Rounds:
    return Rounds(NativeLooks(Proc()))


def keys(snapshot: Snapshot) -> list[tuple[int, int]]:
    return [(row.pid, row.tid) for row in snapshot.native_stacks]


def test_a_thread_is_read_once_and_again_when_it_has_run(asked: Asked, rounds: Rounds) -> None:
    wanted = {ROOT: {ROOT}, WORKER: {HELPER}}
    first = rounds.round(wanted)
    assert keys(first) == [(ROOT, ROOT), (WORKER, HELPER)]
    assert asked.about == [(ROOT, (ROOT,)), (WORKER, (HELPER,))]
    second = rounds.round(wanted)
    assert second.native_stacks is first.native_stacks
    assert len(asked.about) == 2
    third = rounds.round(wanted, *THREADS[:2], thread(WORKER, HELPER, slices=2))
    assert asked.about[2:] == [(WORKER, (HELPER,))]
    assert third.native_stacks[0] is first.native_stacks[0]
    assert third.native_stacks[1].taken_at == rounds.at


def test_where_nothing_is_read_the_snapshot_stays_the_very_same(asked: Asked, rounds: Rounds) -> None:
    rounds.round({ROOT: {ROOT}})
    begun = Snapshot(
        taken_at=9.0,
        root_pid=ROOT,
        root_start_time=0.0,
        threads=THREADS,
        native_stacks=rounds.looks.still_true(THREADS),
    )
    assert rounds.looks.add(begun, {ROOT: {ROOT}}) is begun
    assert begun.native_stacks
    assert len(asked.about) == 1


def test_what_was_read_stays_though_a_finding_is_gone_because_of_it(asked: Asked, rounds: Rounds) -> None:
    """Else the finding would come back with the next round, and go again."""
    first = rounds.round({ROOT: {ROOT}})
    assert rounds.round({}).native_stacks is first.native_stacks
    assert rounds.round({ROOT: {ROOT}}).native_stacks is first.native_stacks
    assert len(asked.about) == 1


def test_one_that_ran_meanwhile_is_no_fact_of_the_next_round(asked: Asked, rounds: Rounds) -> None:
    rounds.round({ROOT: {ROOT}})
    assert rounds.looks.still_true((thread(ROOT, ROOT, slices=2),)) == ()


@pytest.mark.parametrize("end", ["running", "moved"])
def test_what_was_running_is_asked_again(asked: Asked, rounds: Rounds, end: str) -> None:
    asked.end = end
    assert rounds.round({ROOT: {ROOT}}).native_stacks[0].end == end
    rounds.round({ROOT: {ROOT}})
    assert len(asked.about) == 2


def test_who_may_not_be_read_is_asked_once_and_says_why(asked: Asked, rounds: Rounds) -> None:
    asked.refusal = PermissionError(1, "Operation not permitted")
    first = rounds.round({ROOT: {ROOT}})
    (row,) = first.native_stacks
    assert (row.frames, row.end, row.why) == ((), "refused", "operation not permitted")
    (report,) = first.probes
    assert (report.name, report.ok, report.problem) == ("native stacks", False, "pid 10: operation not permitted")
    assert rounds.round({ROOT: {ROOT}}).native_stacks is first.native_stacks
    assert len(asked.about) == 1


def test_threads_that_are_no_more_are_not_asked(asked: Asked, rounds: Rounds) -> None:
    assert rounds.round({ROOT: {ROOT, 99}, 98: {98}}).native_stacks[0].tid == ROOT
    assert asked.about == [(ROOT, (ROOT,))]


def test_what_does_not_fit_into_a_round_is_read_in_the_next(asked: Asked) -> None:
    rounds = Rounds(NativeLooks(Proc(), round_s=-1.0))
    assert rounds.round({ROOT: {ROOT}}).native_stacks == ()
    rounds.looks = NativeLooks(Proc(), round_s=60.0)
    assert keys(rounds.round(all_threads(THREADS))) == [(row.pid, row.tid) for row in THREADS]


def test_a_row_of_a_thread_is_compared_and_not_its_age(asked: Asked, rounds: Rounds) -> None:
    rounds.round({ROOT: {ROOT}})
    again = msgspec.structs.replace(THREADS[0])
    assert again is not THREADS[0]
    assert len(rounds.looks.still_true((again,))) == 1


@pytest.mark.parametrize("end", ["running", "moved"])
def test_one_that_runs_is_sampled_and_in_the_next_round_again(asked: Asked, rounds: Rounds, end: str) -> None:
    asked.end = end
    found = rounds.looks.sample(rounds.round({WORKER: {WORKER, HELPER}}), {WORKER: {HELPER}})
    assert asked.sampled == [(WORKER, (HELPER,))]
    assert [row.tid for row in found.native_stacks if row.is_sample] == [HELPER]
    assert (found.probes[-1].name, found.probes[-1].ok) == ("native samples", True)
    assert rounds.looks.still_true(THREADS) == ()


def test_one_that_sleeps_is_not_sampled(asked: Asked, rounds: Rounds) -> None:
    rounds.round({ROOT: {ROOT}})
    assert not rounds.looks.any_runs


def test_few_are_sampled_in_a_round_and_those_of_suspects_first(asked: Asked, rounds: Rounds) -> None:
    asked.end = "running"
    threads = (*(thread(WORKER, WORKER + n) for n in range(MOST_SAMPLED)), thread(ROOT, ROOT))
    wanted = {WORKER: {row.tid for row in threads[:-1]}, ROOT: {ROOT}}
    rounds.looks.sample(rounds.round(wanted, *threads), wanted)
    assert asked.sampled == [(WORKER, tuple(range(WORKER, WORKER + MOST_SAMPLED)))]


def test_a_process_that_ends_before_it_is_sampled_is_a_problem_of_the_probe(asked: Asked, rounds: Rounds) -> None:
    asked.end = "running"
    snapshot = rounds.round({ROOT: {ROOT}})
    asked.refusal = ProcessLookupError(3, "No such process")
    found = rounds.looks.sample(snapshot, {ROOT: {ROOT}})
    assert found.native_stacks == snapshot.native_stacks
    assert (found.probes[-1].ok, found.probes[-1].problem) == (False, "pid 10: no such process")
