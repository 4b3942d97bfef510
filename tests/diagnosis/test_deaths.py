"""Who died, how, and what is known of why: the words that every rule about the dead uses."""

from __future__ import annotations

import signal

import msgspec
import pytest

from mpmon.diagnosis.edges import node
from mpmon.diagnosis.edges.deaths import Death, death, did
from mpmon.diagnosis.edges.numbered import misses_sibling
from mpmon.diagnosis.edges.replaced import replaced
from mpmon.diagnosis.graph import Absent, NoReleaser
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import Cgroup, Exit, KnownChild, Process, Row, Snapshot
from tests.builders import (
    ROOT,
    START,
    after,
    blocked,
    diagnosed,
    frame,
    history,
    kernel_object,
    process,
    snapshot,
    stack,
    thread,
    watched,
)

DEAD = 8
GROUP = "/job"
SIGKILL = int(signal.SIGKILL)


def zombie(code: int | None, **more: object) -> Process:
    return process(DEAD, parent=4100, state="Z", exit_code=code, **more)


def group(kills: int | None, *, seen_at: float | None = None, **more: object) -> Cgroup:
    row = Cgroup(path=GROUP, oom_kills=kills, oom_kill_seen_at=seen_at, limit_bytes=8 << 30, peak_bytes=8 << 30)
    return msgspec.structs.replace(row, **more)


def of(*rounds: Snapshot) -> Death:
    """The end of process 8, as it is told after these rounds."""
    return death(JobState(history(*rounds), rounds[-1]), DEAD)


def with_zombie(code: int | None, *rows: Row) -> Snapshot:
    return snapshot(process(cgroup=GROUP), zombie(code), *rows)


def test_one_that_a_signal_killed() -> None:
    found = of(with_zombie(int(signal.SIGBUS)))
    assert found.how == "killed by SIGBUS (7)"
    assert found.evidence == ("pid 8 is a zombie: killed by SIGBUS (7) (/proc/8/stat, field 52)",)
    assert "df -h /dev/shm" in found.advice[0]


@pytest.mark.parametrize(("code", "advice"), [(0, "os._exit()"), (1 << 8, "traceback"), (int(signal.SIGSEGV), "FAULT")])
def test_advice_depends_on_the_end(code: int, advice: str) -> None:
    assert advice in of(with_zombie(code)).advice[0]


def test_an_end_that_is_hidden_is_not_an_exit_status() -> None:
    found = of(with_zombie(None))
    assert found.how == "ended"
    assert "cannot be read" in found.evidence[0]


def test_the_counter_of_its_group_grew_while_mpmon_watched() -> None:
    alive = snapshot(process(cgroup=GROUP), process(DEAD, parent=4100, cgroup=GROUP), group(0))
    dead = with_zombie(SIGKILL, group(1, seen_at=START + 1))
    found = of(alive, msgspec.structs.replace(dead, taken_at=START + 1))
    assert found.how == "killed by SIGKILL (9), by the out-of-memory killer"
    assert "grew to 1 while mpmon watched (limit 8.0 GiB, most used 8.0 GiB)" in found.evidence[1]
    assert "num_workers" in found.advice[0]


def test_the_counter_of_its_group_grew_before_mpmon_came() -> None:
    found = of(with_zombie(SIGKILL, group(2)))
    assert found.how == "killed by SIGKILL (9)"
    assert "is 2 since the group was created" in found.evidence[1]
    assert "may" in found.evidence[1]


def test_the_counter_that_grew_after_its_end_says_nothing_sure() -> None:
    found = of(with_zombie(SIGKILL, group(1)), after(with_zombie(SIGKILL, group(2, seen_at=START + 1)), 1.0))
    assert found.how == "killed by SIGKILL (9)"


def test_the_counter_of_its_group_did_not_grow() -> None:
    found = of(with_zombie(SIGKILL, group(0)))
    assert found.how == "killed by SIGKILL (9)"
    assert "it was not the out-of-memory killer" in found.evidence[1]
    assert "what sent SIGKILL" in found.advice[0]


def test_why_nothing_is_known_of_its_group() -> None:
    unknown = group(None, reasons={"oom_kills": "no control groups are mounted here"})
    assert "no control groups are mounted here" in of(with_zombie(SIGKILL, unknown)).evidence[1]
    assert "unknown" in of(with_zombie(SIGKILL)).evidence[1]
    assert "dmesg" in of(with_zombie(SIGKILL)).advice[0]


def test_one_that_was_collected() -> None:
    last = process(DEAD, parent=4100, cgroup=GROUP)
    row = Exit(pid=DEAD, start_time=last.start_time, seen_at=START + 4, process=last)
    assert of(snapshot(process(), row)).how == "ended while mpmon watched"
    assert of(snapshot(process(), row, group(1, seen_at=START + 4))).how.endswith(
        "probably killed by the out-of-memory killer"
    )
    assert of(snapshot(process(), row, group(1, seen_at=START + 60))).how == "ended while mpmon watched"
    seen = msgspec.structs.replace(row, process=msgspec.structs.replace(last, state="Z", exit_code=1 << 8))
    assert of(snapshot(process(), seen)).how == "ended with exit status 1"


@pytest.mark.parametrize(
    ("how", "words"),
    [("killed by SIGKILL (9)", "was killed by SIGKILL (9)"), ("ended with exit status 1", "ended with exit status 1")],
)
def test_an_end_as_a_verb(how: str, words: str) -> None:
    assert did(how) == words


def test_one_that_was_collected_but_is_remembered() -> None:
    remembered = KnownChild(pid=4100, child=77, returncode=-SIGKILL, name="reader")
    waits = (
        stack("main", "multiprocessing/connection.py:430 Connection._recv", "multiprocessing/queues.py:100 Queue.get",
              "train.py:9 main"),
        blocked("read", "pipe:1", ran_at=0.0), kernel_object("pipe:1", fill=0, capacity=65536),
    )  # fmt: skip
    finding = watched(snapshot(process(), *waits, remembered)).findings[0]
    assert [(suspect.pid, suspect.dead, suspect.role) for suspect in finding.suspects] == [(77, True, "process reader")]
    assert "killed by SIGKILL (9)" in finding.summary


@pytest.mark.parametrize(
    ("names", "misses"),
    [
        (("store-0", "store-2", "store-3"), True),
        (("Process-1", "ForkProcess-3"), True),
        (("reader-1", "writer-3"), False),
        (("store-0", "store-1", "store-2"), False),
    ],
)
def test_a_sibling_is_missing_where_one_counter_of_names_skips_a_number(
    names: tuple[str, ...], *, misses: bool
) -> None:
    family = [process(pid, parent=ROOT) for pid in range(5000, 5000 + len(names))]
    rows = (KnownChild(pid=ROOT, child=row.pid, name=name) for row, name in zip(family, names, strict=True))
    shown = snapshot(process(), thread(), *family, *rows)
    assert misses_sibling(JobState(history(shown), shown), 5000) is misses


def test_a_manager_is_no_sibling() -> None:
    """Its name has a number too."""
    names = {5000: "arena-0", 5002: "arena-2", 5003: "arena-3", 5009: "SyncManager-1"}
    family = [process(pid, parent=ROOT) for pid in names]
    serves = stack("main", "multiprocessing/managers.py:190 Server.serve_forever",
                   "multiprocessing/managers.py:595 BaseManager._run_server", pid=5009)  # fmt: skip
    rows = (KnownChild(pid=ROOT, child=pid, name=name) for pid, name in names.items())
    shown = snapshot(process(), thread(), *family, serves, *rows)
    assert misses_sibling(JobState(history(shown), shown), 5000)


FORK_SERVER = process(
    5001, parent=ROOT, cmdline=("python", "-c", "from multiprocessing.forkserver import main; main(7, 8)")
)


@pytest.mark.parametrize(
    ("name", "more", "untold"),
    [("Process-4", (), True), ("", (), False), ("Process-4", (FORK_SERVER,), False)],
    ids=["taken", "a-called-program", "told-by-a-fork-server"],
)
def test_a_child_whose_exit_status_another_wait_took(name: str, more: tuple[Process, ...], *, untold: bool) -> None:
    asks = msgspec.structs.replace(stack("main", "job.py:73 prepared"), tests=("is_alive",))
    rows = (
        process(), thread(), asks, blocked("clock_nanosleep", wakes_at=START + 0.2, ran_at=START - 0.1),
        process(5000, parent=ROOT), thread(5000), KnownChild(pid=ROOT, child=5000, name="Process-1"),
        KnownChild(pid=ROOT, child=5003, name=name), *more,
    )  # fmt: skip
    shown = snapshot(*rows)
    edge = node(JobState(history(shown), shown), (ROOT, ROOT)).edge
    reasons = [target.reason for target in edge.targets if isinstance(target, NoReleaser)] if edge else []
    assert reasons == ([Absent.STATUS_TAKEN] if untold else [])


def pool(*, ended: int, result_at: float = 0.0) -> list[Snapshot]:
    """A process waits for a pool whose workers end one after the other, while one is alive; when a result came last."""
    rounds: list[Snapshot] = []
    for second in range(12):
        gone = [process(7000 + number, parent=ROOT) for number in range(min(ended, second))]
        exits = (
            Exit(pid=row.pid, start_time=row.start_time, seen_at=START + 1 + at, process=row)
            for at, row in enumerate(gone)
        )
        alive = process(8000 + second, parent=ROOT)
        takes = thread(tid=4102, slices=int(min(second, result_at)))
        rows = (
            process(), thread(),
            stack("main", "lib/threading.py:327 wait", "multiprocessing/pool.py:768 ApplyResult.get", "job.py:9 f"),
            blocked("futex", ran_at=START - 9),
            takes, stack("results", "multiprocessing/pool.py:579 Pool._handle_results", tid=4102),
            thread(tid=4103), stack("workers", "multiprocessing/pool.py:522 Pool._handle_workers", tid=4103),
            alive, thread(alive.pid), stack("main", "multiprocessing/pool.py:125 worker", pid=alive.pid),
            *exits,
        )  # fmt: skip
        rounds.append(snapshot(*rows, at=float(second)))
    return rounds


@pytest.mark.parametrize(
    ("ended", "result_at", "found"), [(8, 0.0, True), (5, 0.0, False), (8, 9.0, False)],
    ids=["many-ended", "few-ended", "a-result-came"],
)  # fmt: skip
def test_workers_of_a_pool_that_end_without_a_result(ended: int, result_at: float, *, found: bool) -> None:
    (finding,) = diagnosed(pool(ended=ended, result_at=result_at)).findings or (None,)
    assert (finding is not None and "end without a result" in finding.summary) == found


STARTER = 4200
"""The id of the pool's thread that starts workers."""


@pytest.mark.parametrize(
    ("pids", "locals_", "shown"),
    [
        ((4198, 4199), {"completed": "3"}, None),
        ((4198, 4205), {"completed": "3"}, (4205, (4199,))),
        ((4205, 4206), {"completed": "3"}, (4205, (4198, 4199))),
        ((4198, 4205), {"completed": "3", "maxtasks": "9"}, None),
    ],
    ids=["the-first-ones", "one-took-a-place", "all-took-places", "they-end-after-some-tasks"],
)
def test_a_worker_that_was_started_after_the_pool(
    pids: tuple[int, ...], locals_: dict[str, str], shown: tuple[int, tuple[int, ...]] | None
) -> None:
    rows: list[Row] = [process(), thread(), stack("main", "job.py:9 f"), thread(tid=STARTER)]
    rows.append(stack("workers", "multiprocessing/pool.py:522 Pool._handle_workers", tid=STARTER))
    for pid in pids:
        works = frame("multiprocessing/pool.py:114 worker", **locals_)
        rows += [process(pid, parent=ROOT), thread(pid), stack("main", "queues.py:364 get", works, pid=pid)]
    job = JobState(history(last := snapshot(*rows)), last)
    found = replaced(job, pids)
    assert (found and (found.successor, found.dead)) == shown


SERVER, DELIVERER = 4150, 4202


def beside_one_that_works(*workers: int, last_at: float = 0.0) -> list[Snapshot]:
    """The main program works; a child waits for a result of its pool, whose workers have nothing to do, for 15 s; the last of
    them was started so many seconds after it began to wait.
    """
    waits = ("lib/threading.py:331 Condition.wait", "lib/threading.py:629 Event.wait")
    asks = ("multiprocessing/pool.py:765 ApplyResult.wait", "multiprocessing/pool.py:771 ApplyResult.get")
    rows: list[Row] = [
        process(SERVER, parent=ROOT), thread(SERVER), blocked("futex", pid=SERVER),
        stack("main", *waits, *asks, "job.py:9 answer", pid=SERVER),
        thread(SERVER, STARTER), blocked("poll", pid=SERVER, tid=STARTER),
        stack("workers", "multiprocessing/pool.py:522 Pool._handle_workers", pid=SERVER, tid=STARTER),
        thread(SERVER, DELIVERER), blocked("read", pid=SERVER, tid=DELIVERER),
        stack("results", "multiprocessing/pool.py:579 Pool._handle_results", pid=SERVER, tid=DELIVERER),
    ]  # fmt: skip
    for pid in workers:
        works = frame("multiprocessing/pool.py:114 worker", completed="3")
        began = {"start_time": START + last_at} if pid == workers[-1] else {}
        rows.append(msgspec.structs.replace(process(pid, parent=SERVER), **began))
        rows += [thread(pid), blocked("read", pid=pid)]
        rows.append(stack("main", "multiprocessing/queues.py:364 SimpleQueue.get", works, pid=pid))
    return [
        snapshot(process(), thread(slices=9 * at), stack("main", f"job.py:{at} work", at=at), *rows, at=float(at))
        for at in range(15)
    ]


def test_a_result_that_was_lost_with_its_worker_never_comes_whatever_else_goes_on() -> None:
    (finding,) = diagnosed(beside_one_that_works(4198, 4205, last_at=0.5)).findings
    assert (finding.cause, [row.pid for row in finding.suspects]) == ("worker-dead", [4199])
    assert "a worker of its pool died" in finding.summary


def test_not_if_the_worker_had_been_replaced_before_it_was_asked() -> None:
    assert not diagnosed(beside_one_that_works(4198, 4205, last_at=-5.0)).findings


def test_while_all_workers_are_the_first_ones_its_program_may_yet_send_more_work() -> None:
    assert not diagnosed(beside_one_that_works(4198, 4199)).findings


def test_a_worker_whose_task_serves_has_not_lost_it() -> None:
    serves = ("lib/socketserver.py:233 BaseServer.serve_forever", "job.py:20 serve")
    rounds = []
    for seen in beside_one_that_works(4198, 4205, last_at=0.5):
        works = frame("multiprocessing/pool.py:125 worker", completed="3")
        at = tuple(stack("main", *serves, works, pid=4205) if row.pid == 4205 else row for row in seen.stacks)
        rounds.append(msgspec.structs.replace(seen, stacks=at))
    job = JobState(history(*rounds), rounds[-1])
    assert node(job, (SERVER, SERVER)).edge is None
