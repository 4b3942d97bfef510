"""Who is looked at and when: on a small tree in the form of /proc, with a clock that a test moves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

import msgspec
import pytest

from mpmon.model import BOTH, MPMON, CallPlace, KnownChild, Snapshot, Spot, Stack, Unknown
from mpmon.probes import interpreter, syscalls
from mpmon.probes.interpreter.look import Findings
from mpmon.probes.kernel import threads
from mpmon.probes.stacks import TORN
from mpmon.session import budget, look, renewals, schedule
from mpmon.session import spots as spots_module
from mpmon.session.look import LONGEST_INTERVAL_S
from mpmon.session.renewals import Foreseen
from mpmon.session.sampler import Sampler
from mpmon.session.schedule import CROWD, PER_ROUND, RESTS_LONG_S, ROUNDS, TURN_S
from mpmon.session.spots import ENOUGH, IN_VAIN
from mpmon.session.thorough import BATCH, NO_TIME, TORN_FOR_S
from tests.builders import START, stack
from tests.probes.tree import BOOTED_AT, Tree, TreeProc

ROOT, WORKER = 4100, 4121
POLL_FOREVER = "7 0x1000 0x1 0xffffffff 0x0 0x0 0x0 0x7ffc 0x7f11"

RELATIVE_SLEEP = "230 0x0 0x0 0x7f00 0x0 0x0 0x0 0x7ffc 0x7f11"
"""clock_nanosleep; where it ends cannot be read here."""


class Dumps:
    """Stands in for py-spy: notes who was dumped, gives everybody one frame."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.lines: dict[int, int] = {}
        self.refuses: dict[int, str] = {}
        self.places: dict[int, CallPlace | None] = {}
        self.takes_s = 0.0
        """For each process, by a clock that `Watched` moves."""
        self.passes: Callable[[float], None] = lambda _: None
        self.closed = False
        self.forgotten: list[int] = []

    @property
    def dumps(self) -> int:
        return len(self.asked)

    def dump(
        self, pids: Iterable[int], now: Callable[[], float]
    ) -> tuple[dict[int, tuple[Stack, ...]], dict[int, Unknown]]:
        wanted = list(pids)
        self.asked += wanted
        self.passes(self.takes_s * len(wanted))
        unknowns = {
            pid: Unknown(table="stacks", pid=pid, reason=self.refuses[pid]) for pid in wanted if pid in self.refuses
        }
        stacks = {pid: (self._stack(pid, now() - START),) for pid in wanted if pid not in unknowns}
        return stacks, unknowns

    def _stack(self, pid: int, at: float) -> Stack:
        row = stack("main", f"job.py:3 f{self.lines.get(pid, 0)}", pid=pid, at=at)
        return msgspec.structs.replace(row, place=self.places.get(pid))

    def forget(self, pid: int) -> None:
        self.forgotten.append(pid)

    def close(self) -> None:
        self.closed = True

    def taken(self) -> list[int]:
        """Who was dumped since the last question."""
        asked, self.asked = self.asked, []
        return sorted(asked)


class Watched:
    """A job, a sampler on it, and the time."""

    def __init__(self, tree: Tree, *, eager: bool = False, seconds: float = math.inf) -> None:
        self.tree = tree
        self.time = BOOTED_AT + 1000.0
        self.dumps = Dumps()
        self.dumps.passes = self.passes
        self._eager, self._seconds = eager, seconds
        self._sampler: Sampler | None = None

    @property
    def sampler(self) -> Sampler:
        if self._sampler is None:
            self._sampler = Sampler(
                TreeProc(self.tree.root), ROOT, now=lambda: self.time, host="host", eager=self._eager,
                seconds=self._seconds, stack_probe=self.dumps,  # type: ignore[arg-type]
            )  # fmt: skip
        return self._sampler

    def passes(self, seconds: float) -> None:
        self.time += seconds

    def round(self, *, later: float = 1.0, ran: Iterable[int] = ()) -> Snapshot:
        """One round some seconds later, in which these have run meanwhile."""
        self.time += later
        for pid in ran:
            self.tree.run(pid)
        return self.sampler.round()


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    for module in (threads, syscalls):
        monkeypatch.setattr(module, "SYSCALLS", syscalls._X86_64)
    found = Tree(tmp_path / "proc")
    found.add(ROOT)
    found.add(WORKER, parent=ROOT)
    return found


@pytest.fixture
def job(tree: Tree) -> Iterator[Watched]:
    watched = Watched(tree)
    yield watched
    watched.sampler.close()


@pytest.fixture
def report(tree: Tree) -> Iterator[Watched]:
    watched = Watched(tree, eager=True)
    yield watched
    watched.sampler.close()


def test_the_first_round_of_a_screen_only_counts(job: Watched) -> None:
    first = job.round()
    assert [row.pid for row in first.processes] == [ROOT, WORKER]
    assert (first.stacks, first.blocked) == ((), ())
    assert job.dumps.taken() == []


def test_one_report_looks_at_once(report: Watched) -> None:
    assert [row.pid for row in report.round().stacks] == [ROOT, WORKER]


def test_a_process_that_did_not_move_is_looked_at_once_only(job: Watched) -> None:
    rounds = [job.round() for _ in range(60)]
    assert job.dumps.taken() == [ROOT, WORKER]
    assert [row.pid for row in rounds[-1].stacks] == [ROOT, WORKER]


def test_a_round_in_which_nothing_changed_shares_its_rows_with_the_one_before(job: Watched) -> None:
    job.round()
    job.round()
    before, now = job.round(), job.round()
    for table in ("processes", "threads", "exits", "blocked", "objects", "handles", "stacks", "unknowns"):
        rows, old = getattr(now, table), getattr(before, table)
        assert len(rows) == len(old)
        assert all(a is b for a, b in zip(rows, old, strict=True)), table


def spots(job: Watched, call: str, *, ran: bool = True) -> tuple[Spot, ...]:
    """Where the worker is by a round after it came to this call, as the kernel prints it."""
    job.tree.calls(WORKER, call)
    job.round(ran=[WORKER] if ran else [])
    job.sampler.note_ranks([WORKER])
    job.sampler.read_spots()
    return job.round().spots


def test_of_ranks_it_is_read_where_they_are(job: Watched) -> None:
    job.round()
    job.round()
    (waits,) = spots(job, POLL_FOREVER)
    (runs,) = spots(job, "running")
    assert (waits.pid, waits.place) == (WORKER, ("poll", 0x7FFC, 0x7F11))
    assert (runs.place, runs.slices) == (("running", 0, 0), waits.slices + 1)


def test_of_one_that_rests_it_is_not_read_again(job: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    job.round()
    job.round()
    before = spots(job, POLL_FOREVER)
    for _ in range(3):
        job.round()
    monkeypatch.setattr(spots_module, "place_of", None)
    assert spots(job, POLL_FOREVER, ran=False) is before


def test_one_that_was_never_looked_at_is_not_read_either(job: Watched) -> None:
    job.round()
    job.sampler.note_ranks([WORKER])
    job.sampler.read_spots()
    assert job.sampler.has_ranks
    assert job.round().spots == ()


def at(job: Watched, call: str) -> None:
    """The worker comes to this call, and frames are read while it is there."""
    job.tree.calls(WORKER, call)
    job.dumps.places[WORKER] = syscalls.place_of(call.encode())


def test_a_rank_is_looked_at_while_it_is_where_few_looks_have_found_it(job: Watched) -> None:
    """Whenever the last look at it was, for most looks do not find it in a short part of its step."""
    job.sampler.note_ranks([WORKER])
    at(job, POLL_FOREVER)
    for _ in range(20):
        job.round(ran=[WORKER])
        job.sampler.read_spots()
    at(job, RELATIVE_SLEEP)
    job.sampler.read_spots()
    job.dumps.taken()
    looks = []
    for _ in range(ENOUGH + 3):
        at(job, POLL_FOREVER)
        job.round(ran=[WORKER])
        assert job.dumps.taken() == []
        at(job, RELATIVE_SLEEP)
        job.round(ran=[WORKER])
        looks.append(job.dumps.taken())
        job.sampler.read_spots()
    assert looks == [[WORKER]] * ENOUGH + [[]] * 3


def test_a_rank_whose_looks_tell_no_place_is_not_sought_for_ever(job: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget.Budget, "earn", lambda self, now: setattr(self, "left", 1000.0))
    for _ in range(20):
        job.round(ran=[WORKER])
    job.sampler.note_ranks([WORKER])
    job.tree.calls(WORKER, RELATIVE_SLEEP)
    job.dumps.taken()
    looks = []
    for _ in range(30):
        job.sampler.read_spots()
        job.round(ran=[WORKER])
        looks += job.dumps.taken()
    assert len(looks) <= IN_VAIN + 3, "those that its interval allows among them"


def test_where_ranks_are_is_not_read_while_looks_are_more_needed(job: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    job.round()
    job.round()
    assert [row.pid for row in spots(job, POLL_FOREVER)] == [WORKER]
    monkeypatch.setattr(budget.Budget, "earn", lambda self, now: setattr(self, "left", budget.RESERVE / 2 - 1))
    assert spots(job, "running") == ()


def test_one_report_reads_where_ranks_are_whatever_it_costs(report: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    report.round()
    monkeypatch.setattr(budget.Budget, "earn", lambda self, now: setattr(self, "left", -100.0))
    assert [row.pid for row in spots(report, POLL_FOREVER)] == [WORKER]


def test_where_ranks_are_is_taken_off_what_looks_may_cost() -> None:
    purse = budget.Budget(0.0)
    before = purse.left
    assert purse.spend_on_spots(50)
    assert before - purse.left == pytest.approx(50 * budget.SPOT)


def test_one_that_woke_and_went_back_to_the_same_call_keeps_its_stack(job: Watched) -> None:
    for _ in range(3):
        job.round()
    job.dumps.taken()
    for _ in range(10):
        job.round(ran=[WORKER])
    assert job.dumps.taken() == []


def test_one_that_only_sleeps_again_may_be_anywhere_in_its_loop(job: Watched) -> None:
    job.tree.calls(WORKER, RELATIVE_SLEEP)
    for _ in range(3):
        job.round(ran=[WORKER])
    job.dumps.taken()
    for _ in range(10):
        job.round(ran=[WORKER])
    assert WORKER in job.dumps.taken()


def test_one_that_moved_to_another_call_is_looked_at_again(job: Watched) -> None:
    for _ in range(3):
        job.round()
    job.dumps.taken()
    job.tree.calls(WORKER, "61 0xffffffff 0x0 0x0 0x0 0x0 0x0 0x7ffc 0x7f11")
    job.round(ran=[WORKER])
    job.round()
    assert job.dumps.taken() == [WORKER]


def test_looks_at_one_that_runs_but_stays_the_same_become_rare(job: Watched) -> None:
    job.tree.calls(WORKER, "running")
    moments: list[int] = []
    for second in range(120):
        job.round(ran=[WORKER])
        if WORKER in job.dumps.taken():
            moments.append(second)
    gaps = [after - before for before, after in itertools.pairwise(moments)]
    assert gaps == sorted(gaps)
    assert 4 <= len(moments) <= 12
    assert gaps[-1] <= look.LONGEST_INTERVAL_S


def test_of_a_crowd_that_goes_on_as_before_one_after_the_other_is_looked_at_and_the_rest_is_saved(
    job: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "DUMP", 0)
    workers = range(5000, 5000 + CROWD)
    for pid in workers:
        job.tree.add(pid, parent=ROOT, syscall="running")
    for _ in range(20):
        job.round(ran=workers)
    for known in job.sampler._looks.last.values():
        known.interval_s = look.LONGEST_INTERVAL_S
    for _ in range(60):
        job.round(ran=workers)
    job.dumps.taken()
    seconds = 60
    for _ in range(seconds):
        job.round(ran=workers)
    assert 0 < len(job.dumps.taken()) <= seconds / TURN_S
    job.tree.calls(5000, "230 0x1 0x1 0x0 0x0 0x0 0x0 0x3 0x4")
    for _ in range(seconds // 3):
        job.round(ran=workers[1:])
    assert len(job.dumps.taken()) > seconds * budget.LOOKS_PER_S, "one has come to rest: what was saved is spent"


def test_looks_become_frequent_again_when_they_differ(job: Watched) -> None:
    job.tree.calls(WORKER, "running")
    for _ in range(60):
        job.round(ran=[WORKER])
    job.dumps.taken()
    for number in range(80):
        job.dumps.lines[WORKER] = number
        job.round(ran=[WORKER])
    assert len(job.dumps.taken()) >= 10


def test_rest_in_an_unknown_call_is_looked_at_at_once(job: Watched) -> None:
    job.tree.calls(WORKER, "0 0x5 0x0 0x0 0x0 0x0 0x0 0x1 0x2")
    for _ in range(60):
        job.round(ran=[WORKER])
    job.dumps.taken()
    job.tree.calls(WORKER, "230 0x1 0x1 0x0 0x0 0x0 0x0 0x3 0x4")
    job.round(ran=[WORKER])
    job.round()
    job.round()
    assert job.dumps.taken() == [WORKER]


def test_rest_in_a_known_call_other_than_that_of_the_last_look_is_looked_at_after_a_while(job: Watched) -> None:
    sleeps, waits = "230 0x1 0x1 0x0 0x0 0x0 0x0 0x3 0x4", "202 0x1 0x0 0x0 0x0 0x0 0x0 0x5 0x6"
    seen_in = waits
    for second in range(120):
        call = (waits, sleeps)[second // 3 % 2]
        job.tree.calls(WORKER, call)
        job.round(ran=[WORKER])
        seen_in = call if job.dumps.taken() else seen_in
    job.tree.calls(WORKER, sleeps if seen_in == waits else waits)
    job.round(ran=[WORKER])
    asked = [job.dumps.taken() for _ in range(10) if job.round()]
    assert asked.index([WORKER]) == RESTS_LONG_S - 1
    assert asked.count([WORKER]) == 1


def test_while_its_main_thread_rests_one_is_looked_at_again_as_its_other_threads_run(job: Watched) -> None:
    """They may have begun to serve one who stands still: so it was in a server of gRPC."""
    thread = WORKER + 50
    job.tree.thread(WORKER, thread, syscall="0 0x5 0x0 0x0 0x0 0x0 0x0 0x1 0x2")
    for _ in range(8):
        job.round()
    job.dumps.taken()
    job.tree.calls(WORKER, "230 0x1 0x1 0x0 0x0 0x0 0x0 0x3 0x4", thread)
    job.tree.run(WORKER, thread)
    for _ in range(4):
        job.round()
    assert job.dumps.taken() == [WORKER]


def test_where_all_run_nobody_is_looked_at_twice(job: Watched) -> None:
    for pid in (ROOT, WORKER):
        job.tree.calls(pid, "running")
    for _ in range(60):
        job.round(ran=[ROOT, WORKER])
    assert job.dumps.taken() == [ROOT, WORKER]


def test_the_one_a_user_looks_at_stays_fresh(job: Watched) -> None:
    for pid in (ROOT, WORKER):
        job.tree.calls(pid, "running")
    for _ in range(3):
        job.round(ran=[ROOT, WORKER])
    job.dumps.taken()
    job.sampler.attend(WORKER)
    for number in range(5):
        job.dumps.lines[WORKER] = number
        job.round(ran=[ROOT, WORKER])
    asked = job.dumps.taken()
    assert set(asked) == {WORKER}
    assert len(asked) >= 3


def test_look_now_looks_at_all_that_moved(job: Watched) -> None:
    for pid in (ROOT, WORKER):
        job.tree.calls(pid, "running")
    for _ in range(10):
        job.round(ran=[ROOT, WORKER])
    job.dumps.taken()
    job.sampler.look_now()
    job.round(later=2.0, ran=[ROOT, WORKER])
    assert job.dumps.taken() == [ROOT, WORKER]


def test_a_large_job_is_looked_at_in_parts(job: Watched) -> None:
    others = range(5000, 5000 + 2 * PER_ROUND)
    for pid in others:
        job.tree.add(pid, parent=ROOT)
    job.round()
    counts, pending = [], []
    for _ in range(4):
        job.round()
        counts.append(len(job.dumps.taken()))
        pending.append(job.sampler.pending)
    assert counts == [PER_ROUND, PER_ROUND, 2, 0]
    assert pending == [True, True, False, False]


def test_of_a_larger_job_more_is_looked_at_in_one_round(job: Watched) -> None:
    others = range(5000, 5000 + 2 * PER_ROUND * ROUNDS)
    for pid in others:
        job.tree.add(pid, parent=ROOT)
    job.round()
    for _ in range(ROUNDS + 1):
        job.round()
    assert set(job.dumps.taken()) >= set(others)
    assert not job.sampler.pending


def unseen(found: Snapshot) -> list[int]:
    """Those whose turn did not come."""
    return [row.pid for row in found.unknowns if (row.table, row.reason) == ("stacks", NO_TIME)]


def test_a_report_on_a_large_job_ends_when_its_time_is_over(tree: Tree) -> None:
    """Each round goes on where the one before it ended, and what nobody looked at is told."""
    workers = range(5000, 5000 + 4 * BATCH - 2)
    for pid in workers:
        tree.add(pid, parent=ROOT)
    job = Watched(tree, eager=True, seconds=2 * BATCH)
    job.dumps.takes_s = 1.0
    first = job.round(later=0.0)
    assert job.dumps.taken() == [ROOT, WORKER, *workers[: 2 * BATCH - 2]]
    assert unseen(first) == list(workers[2 * BATCH - 2 :])
    second = job.round()
    assert job.dumps.taken() == list(workers[2 * BATCH - 2 : 3 * BATCH - 2])
    assert unseen(second) == list(workers[3 * BATCH - 2 :])
    tree.end(workers[-1])
    assert unseen(job.round()) == unseen(job.round()) == []
    job.sampler.close()


def test_a_report_without_an_end_looks_at_all_in_one_round(tree: Tree) -> None:
    for pid in range(5000, 5100):
        tree.add(pid, parent=ROOT)
    job = Watched(tree, eager=True)
    job.dumps.takes_s = 1.0
    assert unseen(job.round()) == []
    assert len(job.dumps.taken()) == 102
    job.sampler.close()


def test_the_root_comes_first(job: Watched) -> None:
    for pid in range(1000, 1000 + 2 * PER_ROUND):
        job.tree.add(pid, parent=ROOT)
    job.round()
    job.round()
    assert ROOT in job.dumps.taken()


def test_the_budget_bounds_what_is_spent(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "RESERVE", 5 - 32)
    for pid in range(5000, 5030):
        tree.add(pid, parent=ROOT)
    job = Watched(tree)
    for _ in range(11):
        job.round(later=1.0)
    spent = len(job.dumps.taken())
    assert 5 <= spent <= 5 + 11 * budget.LOOKS_PER_S
    for _ in range(300):
        job.round(later=1.0)
    assert len(job.dumps.taken()) + spent == 32
    job.sampler.close()


def test_the_first_look_at_each_process_of_a_large_job_is_paid_for(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "RESERVE", 2)
    others = range(5000, 5030)
    for pid in others:
        tree.add(pid, parent=ROOT)
    job = Watched(tree)
    for _ in range(5):
        job.round(later=0.1)
    assert job.dumps.taken() == [ROOT, WORKER, *others]
    job.sampler.close()


def test_an_empty_budget_does_not_make_the_loop_hurry(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "RESERVE", 1 - 2)
    job = Watched(tree)
    for _ in range(3):
        job.round(later=0.1)
    assert job.dumps.taken() == [ROOT]
    assert not job.sampler.pending
    job.sampler.close()


def test_a_low_budget_is_kept_for_those_that_come_to_rest(job: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "RESERVE", 0)
    job.tree.calls(ROOT, "running")
    job.sampler.attend(ROOT)
    for number in range(60):
        job.dumps.lines[ROOT] = number
        job.round(ran=[ROOT])
    assert job.dumps.taken().count(ROOT) <= 60 / schedule.SPARING_INTERVAL_S + 1
    job.tree.calls(ROOT, POLL_FOREVER)
    for _ in range(3):
        job.round()
    assert job.dumps.taken() == [ROOT]


def test_why_there_is_no_stack_is_told(job: Watched) -> None:
    job.dumps.refuses[WORKER] = "not allowed"
    job.round()
    now = job.round()
    assert [row.pid for row in now.stacks] == [ROOT]
    told = [(row.pid, row.reason) for row in now.unknowns if row.table == "stacks"]
    assert told == [(WORKER, "not allowed")]
    report = next(row for row in now.probes if row.name == "stacks")
    assert (report.ok, report.problem) == (False, "not allowed")


def test_frames_that_change_too_fast_are_those_of_a_moment_ago(report: Watched) -> None:
    """And those of long ago are none."""
    report.round()
    report.dumps.refuses[WORKER] = f"py-spy: {TORN}"
    soon = report.round(ran=[WORKER])
    assert [row.pid for row in soon.stacks] == [ROOT, WORKER]
    assert not [row for row in soon.unknowns if row.table == "stacks"]
    late = report.round(later=TORN_FOR_S + 1, ran=[WORKER])
    assert [row.pid for row in late.stacks] == [ROOT]
    assert [row.pid for row in late.unknowns if row.table == "stacks"] == [WORKER]


def test_rows_of_one_that_ended_are_gone(job: Watched) -> None:
    for _ in range(2):
        job.round()
    job.tree.end(WORKER)
    now = job.round()
    assert [row.pid for row in now.stacks] == [ROOT]
    assert [row.pid for row in now.exits] == [WORKER]


def test_a_zombie_is_not_looked_at(job: Watched) -> None:
    job.tree.change(WORKER, state="Z")
    for _ in range(3):
        job.round()
    assert job.dumps.taken() == [ROOT]


def test_everything_is_closed(tree: Tree) -> None:
    job = Watched(tree)
    job.round()
    job.sampler.close()
    assert job.dumps.closed


def test_stacks_never(tree: Tree) -> None:
    sampler = Sampler(TreeProc(tree.root), ROOT, now=lambda: BOOTED_AT + 5.0, host="host", stacks="never", eager=True)
    now = sampler.round()
    assert now.stacks == ()
    assert [row.pid for row in now.blocked] == [ROOT, WORKER]
    sampler.close()


def test_the_variables_of_one_that_sleeps_again_and_again_are_read(
    report: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its frames are the same at each look."""

    def look_inside(_proc: object, pid: int, *, looping: Collection[int], **_more: object) -> Findings:
        return Findings(contents=dict.fromkeys(looping, ((0, 1, pid),)))

    monkeypatch.setattr(interpreter, "look_inside", look_inside)
    report.tree.calls(WORKER, RELATIVE_SLEEP)
    rounds = [report.round(ran=[ROOT, WORKER]) for _ in range(3)]
    found = [{row.pid: row.contents for row in each.stacks} for each in rounds]
    assert found[1:] == [{ROOT: None, WORKER: ((0, 1, WORKER),)}] * 2


@pytest.mark.parametrize("advances", [False, True], ids=["no loop of it advances", "a loop of it advances"])
def test_the_variables_of_one_that_runs_are_read_where(
    job: Watched, monkeypatch: pytest.MonkeyPatch, *, advances: bool
) -> None:
    asked: list[int] = []
    places = itertools.count()

    def look_inside(
        _proc: object, pid: int, *, running: Collection[int], looping: Collection[int], **_more: object
    ) -> Findings:
        asked.extend(looping)
        return Findings(turns={tid: ((0x70, next(places) if advances else 5, 0),) for tid in running})

    monkeypatch.setattr(interpreter, "look_inside", look_inside)
    job.tree.calls(WORKER, "running")
    job.sampler.attend(WORKER)
    for _ in range(6):
        job.round(ran=[WORKER], later=LONGEST_INTERVAL_S)
    assert set(asked) == (set() if advances else {WORKER})


def test_a_parent_that_knows_its_children_is_not_searched_for_them_again(
    report: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[bool] = []

    def look_inside(_proc: object, pid: int, *, is_parent: bool, **_more: object) -> Findings:
        if pid == ROOT:
            searched.append(is_parent)
        known = tuple(KnownChild(pid=ROOT, child=child) for child in children) if is_parent else ()
        return Findings(remembered=known)

    def asked() -> list[bool]:
        found = report.round(ran=[ROOT], later=2.0).remembered
        assert [row.child for row in found] == children
        taken = searched[:]
        searched.clear()
        return taken

    monkeypatch.setattr(interpreter, "look_inside", look_inside)
    children: list[int] = []
    assert asked() == [True]
    assert asked() == [True], "it did not know the worker"
    children.append(WORKER)
    assert asked() == [True]
    assert asked() == [False], "it knows all"
    report.tree.add(WORKER + 1, parent=ROOT)
    assert asked() == [True], "there is another one"


# A second reader


class Seconded(Dumps):
    """Reads stacks itself, and has a second reader that tells the same, or not."""

    def __init__(self, *, agree: bool = True) -> None:
        super().__init__()
        self.agree = agree
        self.second_asked: list[int] = []

    def dump(
        self, pids: Iterable[int], now: Callable[[], float]
    ) -> tuple[dict[int, tuple[Stack, ...]], dict[int, Unknown]]:
        stacks, unknowns = super().dump(pids, now)
        return {pid: _read_by(rows, MPMON) for pid, rows in stacks.items()}, unknowns

    def second(
        self, pid: int, stacks: tuple[Stack, ...], _tids: Collection[int], _now: Callable[[], float]
    ) -> tuple[tuple[Stack, ...], Unknown | None]:
        self.second_asked.append(pid)
        return (
            (_read_by(stacks, BOTH), None) if self.agree else ((), Unknown(table="stacks", pid=pid, reason="differs"))
        )


def _read_by(rows: tuple[Stack, ...], reader: str) -> tuple[Stack, ...]:
    return tuple(msgspec.structs.replace(row, reader=reader) for row in rows)


def readers(snapshot: Snapshot) -> dict[int, str]:
    return {row.pid: row.reader for row in snapshot.stacks}


def rests_on_worker(_: Snapshot) -> Foreseen:
    """A hang is foreseen that rests on the worker."""
    return Foreseen({WORKER: {WORKER}}, is_hang=True)


def test_a_second_reader_is_asked_for_what_a_hang_rests_on(report: Watched) -> None:
    report.dumps = seconded = Seconded()
    assert readers(report.sampler.round(rests_on_worker)) == {ROOT: MPMON, WORKER: BOTH}
    report.time += 1.0
    assert readers(report.sampler.round(rests_on_worker))[WORKER] == BOTH
    assert seconded.second_asked == [WORKER]


def test_a_second_reader_is_not_asked_again_for_the_same_calls(report: Watched) -> None:
    report.dumps = seconded = Seconded()
    report.sampler.round(rests_on_worker)
    for line in (0, 0, 1):
        seconded.lines[WORKER] = line
        report.time += 1.0
        report.tree.run(WORKER)
        assert readers(report.sampler.round(rests_on_worker))[WORKER] == BOTH
    assert seconded.asked.count(WORKER) == 4
    assert seconded.second_asked == [WORKER, WORKER]


def test_stacks_of_which_readers_differ_are_told_by_neither(report: Watched) -> None:
    report.dumps = Seconded(agree=False)
    snapshot = report.sampler.round(rests_on_worker)
    assert readers(snapshot) == {ROOT: MPMON}
    assert [(row.pid, row.reason) for row in snapshot.unknowns if row.table == "stacks"] == [(WORKER, "differs")]


def test_without_a_hang_there_is_no_second_reader(report: Watched) -> None:
    report.dumps = seconded = Seconded()
    report.sampler.round(lambda _: Foreseen({}, is_hang=False))
    assert seconded.second_asked == []


def test_before_a_hang_is_told_all_that_have_run_are_looked_at_again(job: Watched) -> None:
    """The worker may have accepted the connection on which the root waits; one look after the hang began is enough."""
    calls = itertools.count()

    def foreseen(*, is_hang: bool) -> list[int]:
        """Who is looked at in a round in which the worker runs and a hang of the root is foreseen or not."""
        job.tree.calls(WORKER, f"0 {next(calls):#x} 0x0 0x0 0x0 0x0 0x0 0x1 0x2")
        job.tree.run(WORKER)
        job.time += 1.0
        job.sampler.round(lambda _: Foreseen({ROOT: {ROOT}}, is_hang=is_hang))
        return job.dumps.taken()

    for _ in range(60):
        last = foreseen(is_hang=False)
    assert last == []
    assert [foreseen(is_hang=hangs) for hangs in (True, True, True, False, True)] == [[WORKER], [], [], [], [WORKER]]


def hung(job: Watched, *rests_on: int, ran: Iterable[int]) -> list[int]:
    """Who is looked at in a round in which a hang is foreseen that rests on these."""
    job.time += 1.0
    job.dumps.taken()
    for pid in ran:
        job.tree.calls(pid, f"0 {int(job.time):#x} 0x0 0x0 0x0 0x0 0x0 0x1 0x2")
        job.tree.run(pid)
    job.sampler.round(lambda _: Foreseen({pid: {pid} for pid in rests_on}, is_hang=True))
    return job.dumps.taken()


def test_one_that_has_ended_is_not_looked_at_again(job: Watched) -> None:
    """What was known of it when it ran would be lost."""
    for _ in range(3):
        job.round(ran=[WORKER])
    job.tree.change(WORKER, state="Z")
    assert WORKER not in hung(job, ROOT, ran=[])


def test_of_many_that_have_run_some_are_looked_at_in_the_next_round_which_follows_at_once(job: Watched) -> None:
    many = range(5000, 5000 + 2 * renewals.PER_ROUND)
    for pid in many:
        job.tree.add(pid, parent=ROOT)
    for _ in range(30):
        job.round()
    first = hung(job, ROOT, ran=many)
    assert renewals.PER_ROUND <= len(first) < len(many)
    assert job.sampler.pending
    assert sorted({*first, *hung(job, ROOT, ran=())}) == list(many)
    assert not job.sampler.pending


def test_a_basis_that_changes_to_and_fro_is_one_hang(job: Watched) -> None:
    other = 5000
    job.tree.add(other, parent=ROOT)
    for _ in range(60):
        job.round(ran=[WORKER])
    bases = [(ROOT,), (ROOT, other), (ROOT,), (ROOT, other)]
    assert [WORKER in hung(job, *basis, ran=[WORKER]) for basis in bases] == [True, True, False, False]


def test_one_that_runs_while_others_are_looked_at_is_looked_at_again(job: Watched) -> None:
    """A hang that rests on it may be over: its server answered before it was looked at, and after the counters were read."""
    for _ in range(30):
        job.round()
    job.time += 1.0
    job.dumps.taken()

    def foresee(_: Snapshot) -> Foreseen:
        job.tree.calls(WORKER, f"0 {int(job.time):#x} 0x0 0x0 0x0 0x0 0x0 0x1 0x2")
        job.tree.run(WORKER)
        job.time += 0.01
        return Foreseen({WORKER: {WORKER}}, is_hang=True)

    job.sampler.round(foresee)
    assert WORKER in job.dumps.taken()
