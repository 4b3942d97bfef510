"""Waits that look like hangs and are none: for a signal, for a child that works, in native code, in torch's RPC; and what
looks the same and does hang.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

import msgspec
import pytest

from mpmon.diagnosis import Memo
from mpmon.diagnosis.edges.dead import crashed_relatives
from mpmon.diagnosis.findings import Diagnosis, Verdict
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import BY_CLOCK, NOT_PYTHON, Exit, KernelObject, KnownChild, Process, QueueState, Row, Unknown
from tests.builders import (
    PACKAGES,
    ROOT,
    START,
    blocked,
    diagnosed,
    frame,
    history,
    holds,
    kernel_object,
    process,
    running,
    snapshot,
    stack,
    thread,
    wants,
)

CHILD, OTHER, NATIVE = 4121, 4122, 4190
SEGV = 11
IN_EVENT = ("lib/threading.py:327 Condition.wait", "lib/threading.py:629 Event.wait", "job.py:40 <module>")
SERVES = ("lib/selectors.py:415 select", "lib/socketserver.py:232 BaseServer.serve_forever", "serve.py:4 serve")

Rows = tuple[Row, ...]


def seen(rows: Callable[[int], Rows], seconds: int = 12) -> Diagnosis:
    """What is said of a job that looked like this in each second."""
    return diagnosed([snapshot(*rows(second), at=float(second)) for second in range(seconds)])


def sleeper(pid: int, second: int, line: int = 30, *, wakes: bool = True, state: str = "S") -> Rows:
    """A Python process that sleeps a moment at that line; it wakes between two looks."""
    return (
        process(pid, parent=1 if pid == ROOT else ROOT, cmdline=("python", f"{pid}.py"), state=state),
        thread(pid, slices=second if wakes else 1),
        stack("main", f"{pid}.py:{line} main", pid=pid, at=second),
        blocked("clock_nanosleep", pid=pid, wakes_at=START + second + 0.5 if wakes else None,
                ran_at=START + second - 0.5 if wakes else 0.0),
    )  # fmt: skip


def zombie(code: int) -> Process:
    return process(OTHER, parent=ROOT, state="Z", exit_code=code)


def suspects(found: Diagnosis) -> list[int]:
    return [suspect.pid for suspect in found.findings[0].suspects]


# Polls


def test_whoever_polls_for_a_child_that_gets_on_gets_on() -> None:
    assert seen(lambda at: (*sleeper(ROOT, at), *sleeper(CHILD, at, 30 + at))).verdict is not Verdict.HUNG


def test_nobody_gets_on_where_all_only_poll() -> None:
    found = seen(lambda at: (*sleeper(ROOT, at), *sleeper(CHILD, at)))
    assert (found.verdict, suspects(found)) == (Verdict.HUNG, [CHILD])


@pytest.mark.parametrize(("share", "hung"), [(0.5, False), (0.001, True)])
def test_a_child_that_is_no_python_works_when_it_uses_a_cpu(*, share: float, hung: bool) -> None:
    def rows(at: int) -> Rows:
        child = process(CHILD, parent=ROOT, cmdline=("ffmpeg",), cpu_s=1 + share * at)
        unread = Unknown(table="stacks", pid=CHILD, reason=NOT_PYTHON)
        return (*sleeper(ROOT, at), child, thread(CHILD, slices=at), running(CHILD), unread)

    assert (seen(rows).verdict is Verdict.HUNG) is hung


def test_whoever_polls_beside_one_that_crashed_waits_for_that() -> None:
    found = seen(lambda at: (*sleeper(ROOT, at), *sleeper(CHILD, at), zombie(SEGV)))
    assert (found.findings[0].cause, suspects(found)) == ("worker-dead", [OTHER])


@pytest.mark.parametrize("code", [0, 15])
def test_one_that_is_done_or_was_told_to_end_is_not_to_blame(code: int) -> None:
    found = seen(lambda at: (*sleeper(ROOT, at), *sleeper(CHILD, at), zombie(code)))
    assert (found.findings[0].cause, suspects(found)) == ("worker-stuck", [CHILD])


def test_one_that_was_told_to_end_does_not_hide_one_that_crashed_and_was_reaped() -> None:
    crashed = KnownChild(pid=ROOT, child=4123, returncode=3, name="Process-1")
    now = history(snapshot(process(), process(CHILD, parent=ROOT), zombie(signal.SIGTERM), crashed))
    assert crashed_relatives(JobState(now, now.snapshot, Memo()), CHILD) == [4123]


# Signals


def waits_for_signal(*frames: str, syscall: str = "futex", catches_term: bool = True) -> Rows:
    return (
        process(catches_term=catches_term), thread(), stack("main", *frames),
        blocked(syscall, *(["futex:4100:0x70"] if syscall == "futex" else []), ran_at=0.0),
    )  # fmt: skip


@pytest.mark.parametrize(("signals", "hangs"), [((signal.SIGUSR1,), True), ((signal.SIGUSR1, signal.SIGALRM), False)])
def test_a_child_that_waits_for_its_interval_timer(signals: tuple[int, ...], *, hangs: bool) -> None:
    """When the timer is due is not known."""
    joins = "multiprocessing/popen_fork.py:40 wait", "multiprocessing/process.py:149 join", "job.py:20 <module>"
    waits = msgspec.structs.replace(blocked("rt_sigtimedwait", pid=CHILD, ran_at=0.0), signals=signals)
    child = process(CHILD, parent=ROOT), thread(CHILD), stack("main", "job.py:3 beacon", pid=CHILD), waits
    main = process(), thread(), stack("main", *joins), blocked("wait4", f"process:{CHILD}", ran_at=0.0)
    assert (seen(lambda _: (*main, *child)).verdict is Verdict.HUNG) is hangs


@pytest.mark.parametrize(("limit_s", "hangs"), [(25.0, False), (4000.0, True)])
def test_a_child_that_waits_for_a_signal_with_a_time_limit_sleeps(limit_s: float, *, hangs: bool) -> None:
    joins = "multiprocessing/popen_fork.py:40 wait", "multiprocessing/process.py:149 join", "job.py:20 <module>"
    waits = blocked("rt_sigtimedwait", pid=CHILD, ran_at=START - 10, timeout_s=limit_s)
    child = process(CHILD, parent=ROOT), thread(CHILD), stack("main", "job.py:3 beacon", pid=CHILD), waits
    main = process(), thread(), stack("main", *joins), blocked("wait4", f"process:{CHILD}", ran_at=0.0)
    assert (seen(lambda _: (*main, *child)).verdict is Verdict.HUNG) is hangs


def test_an_event_that_a_handler_may_set_while_children_work() -> None:
    found = seen(lambda at: (*waits_for_signal(*IN_EVENT), *sleeper(CHILD, at, at + 1)))
    assert (found.verdict, found.because) == (Verdict.HEALTHY, "main is waiting for a signal at job.py:40")


def test_an_event_without_a_handler_has_to_be_set_by_a_thread() -> None:
    found = seen(lambda at: (*waits_for_signal(*IN_EVENT, catches_term=False), *sleeper(CHILD, at, at + 1)))
    assert found.findings[0].cause == "thread-dead"


def test_a_handler_brings_no_item_of_a_queue() -> None:
    frames = ("lib/threading.py:327 Condition.wait", "lib/queue.py:171 Queue.get", "job.py:40 <module>")
    found = seen(lambda at: (*waits_for_signal(*frames), *sleeper(CHILD, at, at + 1)))
    assert found.findings[0].cause == "thread-dead"


def test_a_library_in_an_event_waits_for_what_it_was_called_for() -> None:
    frames = (*IN_EVENT[:-1], f"{PACKAGES}/distributed/utils.py:439 sync", "job.py:40 <module>")
    found = seen(lambda at: (*waits_for_signal(*frames), *sleeper(CHILD, at, at + 1)))
    assert found.because != "main is waiting for a signal at job.py:40"


def test_a_loop_that_is_never_left_is_where_a_program_stays() -> None:
    def job(second: int, tests: tuple[str, ...]) -> Rows:
        main, ran, naps, call = sleeper(ROOT, second)
        return main, ran, msgspec.structs.replace(naps, tests=tests), call, *sleeper(CHILD, second, second + 1)

    assert seen(lambda at: job(at, ())).because == "main is waiting for a signal in main() at 4100.py:30"
    assert seen(lambda at: job(at, ("?",))).because != "main is waiting for a signal in main() at 4100.py:30"


def test_a_pause_while_children_work() -> None:
    found = seen(lambda at: (*waits_for_signal("job.py:40 <module>", syscall="pause"), *sleeper(CHILD, at, at + 1)))
    assert found.verdict is Verdict.HEALTHY


def test_a_pause_for_which_nobody_works() -> None:
    found = seen(lambda at: waits_for_signal("job.py:40 <module>", syscall="pause"))
    assert (found.verdict, found.because) == (Verdict.HEALTHY, "main is waiting for a signal at job.py:40")


def test_a_pause_while_a_child_stands_still() -> None:
    found = seen(
        lambda at: (*waits_for_signal("job.py:40 <module>", syscall="pause"), *sleeper(CHILD, at, wakes=False))
    )
    assert (found.verdict, suspects(found)) == (Verdict.HUNG, [CHILD])


# Servers


def joins_server(*more: Row) -> Rows:
    return (
        process(), thread(), stack("main", "multiprocessing/process.py:149 BaseProcess.join", "job.py:9 <module>"),
        blocked("wait4", f"process:{CHILD}", ran_at=0.0), kernel_object(f"process:{CHILD}"),
        process(CHILD, parent=ROOT), thread(CHILD), stack("main", *SERVES, pid=CHILD), blocked(pid=CHILD, ran_at=0.0),
        *more,
    )  # fmt: skip


def test_a_server_whom_nobody_asks_is_joined() -> None:
    assert seen(lambda _: joins_server()).verdict is Verdict.HEALTHY


def test_beside_the_server_somebody_is_stuck() -> None:
    assert seen(lambda at: joins_server(*sleeper(OTHER, at, wakes=False))).verdict is Verdict.HUNG


def listens(pid: int = ROOT) -> Rows:
    return (
        process(pid, parent=1 if pid == ROOT else ROOT, cmdline=("python", f"{pid}.py")), thread(pid),
        stack("main", "serve.py:3 serve", pid=pid), blocked("accept4", "socket:5", pid=pid, ran_at=0.0),
        kernel_object("socket:5", listens=True, fill=0),
    )  # fmt: skip


def test_a_server_that_waits_for_connections() -> None:
    found = seen(lambda _: listens())
    assert (found.verdict, found.because) == (
        Verdict.HEALTHY,
        "main is waiting for data from a socket in serve() at serve.py:3",
    )


def test_a_worker_that_waits_for_a_connection_keeps_its_pool_waiting() -> None:
    task = (
        *listens(CHILD)[3:],
        process(CHILD, parent=ROOT),
        thread(CHILD),
        stack("main", "rpdb.py:8 accept", *IN_TASK, pid=CHILD),
    )
    found = seen(lambda _: (*waits_for_result(), *task))
    assert (found.verdict, suspects(found)) == (Verdict.HUNG, [CHILD])


# Tasks of a pool, items of a DataLoader

IN_TASK = ("job.py:4 task", "concurrent/futures/process.py:261 _process_worker",
           "multiprocessing/process.py:314 BaseProcess._bootstrap")  # fmt: skip
IN_LOADER = ("lib/selectors.py:415 select", "torch/utils/data/dataloader.py:1291 _try_get_data", "job.py:9 main")
IN_ITEM = ("data.py:4 __getitem__", "torch/utils/data/_utils/worker.py:374 _worker_loop",
           "multiprocessing/process.py:314 BaseProcess._bootstrap")  # fmt: skip


def waits_for_result(*frames: str) -> Rows:
    frames = frames or (
        "lib/threading.py:327 Condition.wait",
        "concurrent/futures/_base.py:451 Future.result",
        "job.py:9 main",
    )
    return process(), thread(), stack("main", *frames), blocked("futex", "futex:4100:0x70", ran_at=0.0)


def at_work(
    at: int, *frames: str, turns: tuple[tuple[int, int], ...] = (), owns_gil: bool = True, sleeps: bool = False
) -> Rows:
    """It is always in the same call, whose innermost frame has other locals each time."""
    inner = msgspec.structs.replace(frame(frames[0], arguments=1, others=at), plain={"key": 1}, carried=("key",))
    found = stack("main", inner, *frames[1:], pid=CHILD, at=at)
    found = msgspec.structs.replace(found, owns_gil=owns_gil and not sleeps, turns=turns)
    rests = blocked("clock_nanosleep", pid=CHILD, wakes_at=START + at + 0.5)
    return process(CHILD, parent=ROOT), thread(CHILD, slices=at), found, rests if sleeps else running(CHILD)


WAYS = {"a task": ((), IN_TASK), "an item": (IN_LOADER, IN_ITEM)}


@pytest.mark.parametrize(("waits", "frames"), WAYS.values(), ids=WAYS)
def test_what_has_an_end_may_compute_for_minutes(waits: tuple[str, ...], frames: tuple[str, ...]) -> None:
    """A loop over a list gets on, beside what a loop inside of it left behind; or one whose turns take longer than the time
    between two looks; or native code computes without the GIL.
    """
    for way in (
        lambda at: {"turns": ((0x70, 9 * at), (0x80, at % 3))}, lambda at: {"turns": ((0x70, at // 2),)},
        lambda _: {"owns_gil": False},
    ):  # fmt: skip
        found = seen(lambda at, way=way: (*waits_for_result(*waits), *at_work(at, *frames, **way(at))))
        assert found.verdict is Verdict.SLOW


@pytest.mark.parametrize(("waits", "frames"), WAYS.values(), ids=WAYS)
def test_a_loop_that_goes_through_nothing_never_ends(waits: tuple[str, ...], frames: tuple[str, ...]) -> None:
    """One inside of it begins again and again; or there is none; or it only wakes and tries again."""
    for way in (lambda at: {"turns": ((0x70, 5 * at % 7),)}, lambda _: {}, lambda _: {"sleeps": True}):
        found = seen(lambda at, way=way: (*waits_for_result(*waits), *at_work(at, *frames, **way(at))))
        assert (found.findings[0].cause, suspects(found)) == ("worker-stuck", [CHILD])


# Native code


def in_native_code(at: int, *more: Row, timed: bool = False, native_runs: bool = True) -> Rows:
    limit = START + at + 0.2 if timed else None
    return (
        process(), thread(), stack("main", "job.py:12 collect"), blocked("futex", "futex:4100:0x70", ran_at=0.0),
        thread(ROOT, NATIVE, slices=at if native_runs else 1, name="rayon"),
        blocked("futex", tid=NATIVE, wakes_at=limit, ran_at=START if native_runs else 0.0), *more,
    )  # fmt: skip


def test_the_threads_of_a_library_work_for_the_one_that_waits() -> None:
    assert seen(in_native_code).verdict is Verdict.HEALTHY


@pytest.mark.parametrize("kind", [{"timed": True}, {"native_runs": False}], ids=str)
def test_a_native_thread_that_only_looks_in_or_stands_still_does_not(kind: dict[str, bool]) -> None:
    found = seen(lambda at: in_native_code(at, **kind))
    assert (found.findings[0].cause, suspects(found)) == ("native-hang", [ROOT])


def test_a_lock_of_python_is_no_native_wait() -> None:
    found = seen(lambda at: in_native_code(at, wants(0x70, "collect", tid=ROOT), native_runs=False))
    assert found.findings[0].cause == "self-deadlock"


# torch.distributed.rpc

IN_SHUTDOWN = (
    "lib/threading.py:327 Condition.wait", "lib/threading.py:629 Event.wait",
    "torch/distributed/rpc/api.py:257 _all_gather", "torch/distributed/rpc/api.py:320 _wait_all_workers",
    "torch/distributed/rpc/api.py:382 shutdown", "job.py:61 run",
)  # fmt: skip
IN_CALL = ("torch/distributed/rpc/api.py:842 rpc_sync", "job.py:60 sample")
NESTED = ("torch/distributed/rpc/api.py:842 rpc_sync", "job.py:49 expand",
          "torch/distributed/rpc/internal.py:209 _run_function")  # fmt: skip


def in_rpc(pid: int, *frames: str, serving: tuple[str, ...] = ()) -> Rows:
    serves = (
        thread(pid, pid + 50), stack("", *serving, pid=pid, tid=pid + 50), blocked("futex", pid=pid, tid=pid + 50, ran_at=0.0)
    )  # fmt: skip
    return (
        process(pid, parent=ROOT), thread(pid), stack("main", *frames, pid=pid),
        blocked("futex", f"futex:{pid}:0x70", pid=pid, ran_at=0.0), thread(pid, pid + 60, name="TP_UV_loop"),
        *(serves if serving else ()),
    )  # fmt: skip


def starter() -> Rows:
    return (
        process(), thread(), stack("main", "torch/multiprocessing/spawn.py:140 ProcessContext.join", "job.py:68 <module>"),
        blocked(ran_at=0.0),
    )  # fmt: skip


def test_a_server_in_shutdown_serves_until_the_others_come() -> None:
    trainer = thread(OTHER, OTHER + 60, name="TP_UV_loop")
    found = seen(lambda at: (*starter(), *in_rpc(CHILD, *IN_SHUTDOWN), *sleeper(OTHER, at, at + 1), trainer))
    assert found.verdict is Verdict.HEALTHY


def test_one_that_never_comes_to_the_shutdown() -> None:
    trainer = thread(OTHER, OTHER + 60, name="TP_UV_loop")
    found = seen(lambda at: (*starter(), *in_rpc(CHILD, *IN_SHUTDOWN), *sleeper(OTHER, at, wakes=False), trainer))
    assert (found.verdict, suspects(found)) == (Verdict.HUNG, [OTHER])


@pytest.mark.parametrize(
    ("native", "hangs"), [("TP_UV_loop", False), ("pt_thread_pool", False), ("TP_SHM_reactor", True)]
)
def test_an_answer_may_be_on_its_way_while_a_native_thread_runs(native: str, *, hangs: bool) -> None:
    """But TensorPipe's reactor always runs. If no other does, only another call could complete the answer."""

    def rows(second: int) -> Rows:
        runs = thread(CHILD, CHILD + 70, name=native, slices=900 * second, run_s=second), running(CHILD, CHILD + 70)
        return (*starter(), *in_rpc(CHILD, *IN_SHUTDOWN), *runs, *in_rpc(OTHER, *IN_CALL))

    assert (seen(rows).verdict is Verdict.HUNG) == hangs


@pytest.mark.parametrize("wakes", [True, False])
def test_an_event_may_be_set_by_a_call_of_another_process(*, wakes: bool) -> None:
    """Its native threads run Python only while they serve a call."""
    found = seen(
        lambda at: (
            *starter(), *in_rpc(CHILD, *IN_EVENT), *sleeper(OTHER, at, at + 1 if wakes else 30, wakes=wakes),
            thread(OTHER, OTHER + 60, name="TP_UV_loop"),
        )
    )  # fmt: skip
    assert (found.verdict is Verdict.HUNG) == (not wakes)
    assert [row.pid for finding in found.findings[:1] for row in finding.suspects] == ([] if wakes else [OTHER])


def test_the_only_threads_that_serve_call_each_other() -> None:
    found = seen(
        lambda _: (*starter(), *in_rpc(CHILD, *IN_CALL, serving=NESTED), *in_rpc(OTHER, *IN_CALL, serving=NESTED))
    )
    assert (found.findings[0].cause, sorted(suspects(found))) == ("lock-cycle", [CHILD, OTHER])


def test_a_thread_that_serves_and_calls_its_own_process_waits_for_itself() -> None:
    found = seen(lambda _: (*starter(), *in_rpc(CHILD, *IN_SHUTDOWN, serving=NESTED), *in_rpc(OTHER, *IN_CALL)))
    assert (found.verdict, suspects(found)) == (Verdict.HUNG, [CHILD])


# A service that looks around


@pytest.mark.parametrize("acts", [True, False])
@pytest.mark.parametrize("circle", [True, False])
def test_workers_of_a_loop_that_looks_around_or_only_sleeps(*, circle: bool, acts: bool) -> None:
    """Main may put what it finds into the queue of its workers, or what the handler of a signal is told. It does not help two of
    them that wait for items of each other's.
    """

    def rows(second: int) -> Rows:
        main = stack("main", "job.py:12 main", at=second)
        return (
            process(), thread(slices=9 * second), msgspec.structs.replace(main, tests=(), acts=acts),
            blocked("clock_nanosleep", ran_at=START + second - 0.5, wakes_at=START + second + 0.5),
            *_taker(CHILD, "pipe:7", OTHER if circle else ROOT), *_taker(OTHER, "pipe:8", CHILD),
        )  # fmt: skip

    found = seen(rows, seconds=16)
    assert (found.verdict is Verdict.HUNG) == circle
    assert not circle or sorted(suspects(found)) == [CHILD, OTHER]


def _taker(pid: int, pipe: str, putter: int) -> Rows:
    """A worker that waits for an item of a queue into which one other process has put some."""
    waits = stack("main", "multiprocessing/connection.py:395 Connection._recv", "multiprocessing/queues.py:103 Queue.get",
                  "job.py:20 work", pid=pid)  # fmt: skip
    return (
        process(pid, parent=ROOT), thread(pid), waits, blocked("read", pipe, pid=pid, ran_at=START - 9),
        kernel_object(pipe, fill=0), *(holds(one, pipe) for one in (ROOT, CHILD, OTHER)),
        QueueState(object=pipe, pid=ROOT, items=0, unread_bytes=0, putters=(putter,), getters=(pid,)),
    )  # fmt: skip


# A library's own thread


@pytest.mark.parametrize(
    ("frames", "verdict"),
    [
        ((f"{PACKAGES}/pebble/pool/process.py:210 pool_manager_loop",), Verdict.SLOW),
        (("job.py:9 watch",), Verdict.HUNG),
    ],
    ids=["of-a-library", "of-the-job"],
)
def test_a_library_s_thread_that_looks_after_time_limits_may_act(frames: tuple[str, ...], verdict: Verdict) -> None:
    def rows(second: int) -> Rows:
        naps = blocked("clock_nanosleep", tid=NATIVE, wakes_at=START + second + 0.1, ran_at=START + second - 0.1)
        return (
            process(), thread(), stack("main", "lib/threading.py:327 Condition.wait",
                                       "concurrent/futures/_base.py:451 Future.result", "job.py:30 main"),
            blocked("futex", ran_at=START - 9),
            thread(tid=NATIVE, slices=9 * second), stack("manager", *frames, tid=NATIVE, at=second), naps,
        )  # fmt: skip

    assert seen(rows, seconds=16).verdict is verdict


@pytest.mark.parametrize(
    ("frames", "verdict"),
    [
        ((f"{PACKAGES}/apscheduler/schedulers/blocking.py:30 BlockingScheduler._main_loop",), Verdict.HEALTHY),
        (("job.py:12 wait_for_results",), Verdict.SLOW),
    ],
    ids=["of-a-library", "of-the-job"],
)
def test_a_library_that_waits_until_its_next_job_is_due_may_act(frames: tuple[str, ...], verdict: Verdict) -> None:
    """Each of its waits takes seven seconds; what the job's own code does then is not known either, but it has waited long."""

    def rows(second: int) -> Rows:
        began = START + second // 7 * 7
        waits = ("lib/threading.py:331 Condition.wait", "lib/threading.py:629 Event.wait", *frames)
        return (
            process(), thread(slices=second // 7), stack("main", *waits, "job.py:30 <module>", at=second),
            blocked("futex", ran_at=began, wakes_at=began + 7.0),
        )  # fmt: skip

    assert seen(rows, seconds=50).verdict is verdict


def test_a_timer_s_descriptor_becomes_readable_by_itself() -> None:
    def rows(_second: int) -> Rows:
        waits = blocked("read", "timerfd:7", ran_at=START - 9)
        return (
            process(),
            thread(),
            stack("main", "job.py:9 main"),
            waits,
            kernel_object("timerfd:7"),
            holds(ROOT, "timerfd:7"),
        )

    assert seen(rows).verdict is Verdict.HEALTHY


@pytest.mark.parametrize(("other", "hangs"), [("pipe:10", False), ("pipe:9", True)], ids=["of another", "of the same"])
def test_a_second_wait_with_a_long_limit_may_end_as_the_first_did(other: str, *, hangs: bool) -> None:
    """`for process in processes: process.join(15)` waits for one after the other; for the same one again, it waits in vain."""

    def rows(second: int) -> Rows:
        began = START + second // 15 * 15
        joins = ("multiprocessing/popen_fork.py:40 Popen.wait", "multiprocessing/process.py:149 BaseProcess.join")
        return (
            process(), thread(slices=second // 15), stack("main", *joins, "job.py:15 <module>", at=second // 15 * 15),
            blocked("poll", ran_at=began, timeout_s=15.0, waits_on=("pipe:9" if second < 15 else other,)),
            process(7, parent=ROOT), thread(pid=7), stack("main", "job.py:4 extract", pid=7),
            blocked("write", pid=7, ran_at=START - 9, waits_on=("pipe:8",)),
        )  # fmt: skip

    verdicts = {seconds: seen(rows, seconds=seconds).verdict for seconds in range(10, 28)}
    assert Verdict.HUNG not in [verdict for seconds, verdict in verdicts.items() if seconds < 16]
    assert (verdicts[27] is Verdict.HUNG) == hangs


@pytest.mark.parametrize(
    ("library", "verdict"), [("dramatiq", Verdict.HEALTHY), ("tqdm", Verdict.HUNG)], ids=["its own", "another"]
)
def test_idle_threads_of_the_library_that_is_asked_may_act_by_their_timers(library: str, verdict: Verdict) -> None:
    """A message that is to be delivered later is in the memory of a thread that waits for other messages."""

    def rows(second: int) -> Rows:
        idle = (f"{PACKAGES}/{library}/worker.py:9 run", "lib/threading.py:1002 Thread._bootstrap")
        asks = ("lib/queue.py:89 Queue.join", f"{PACKAGES}/dramatiq/brokers/stub.py:5 join", "job.py:30 main")
        return (
            process(), thread(), stack("main", "lib/threading.py:327 Condition.wait", *asks),
            blocked("futex", ran_at=START - 9), thread(tid=NATIVE, slices=9 * second),
            stack("worker", "lib/threading.py:331 Condition.wait", "lib/queue.py:180 Queue.get", *idle, tid=NATIVE, at=second),
            blocked("futex", tid=NATIVE, ran_at=START + second - 0.5, wakes_at=START + second + 1),
        )  # fmt: skip

    assert seen(rows, seconds=16).verdict is verdict


# Who polls


@pytest.mark.parametrize(("caller", "hangs"), [(f"{PACKAGES}/rq/job.py:9 execute", False), ("tasks.py:9 main", True)])
def test_who_polls_may_wait_for_a_child_that_is_in_a_task(caller: str, *, hangs: bool) -> None:
    """`while not job.is_finished: time.sleep(1)`, and the worker sleeps five seconds at a time in its task."""

    def rows(second: int) -> Rows:
        asks = msgspec.structs.replace(stack("main", "job.py:24 main", at=second), tests=(".is_finished",))
        began = START + 5 * (second // 5)
        return (
            process(), thread(slices=9 * second), asks,
            blocked("clock_nanosleep", ran_at=START + second - 0.5, wakes_at=START + second + 0.5),
            process(CHILD, parent=ROOT, cmdline=("python", "work.py")), thread(CHILD, slices=second // 5),
            stack("main", "tasks.py:5 export", caller, "work.py:3 <module>", pid=CHILD, at=began - START),
            blocked("clock_nanosleep", pid=CHILD, ran_at=began, wakes_at=began + 5),
        )  # fmt: skip

    assert (seen(rows, seconds=20).verdict is Verdict.HUNG) is hangs


@pytest.mark.parametrize(("tests", "hangs"), [(("?", "time"), False), (("?",), True)], ids=["leaves", "reports"])
def test_who_polls_until_a_time_has_come_goes_on_then(tests: tuple[str, ...], *, hangs: bool) -> None:
    """`while time.time() < end and not done(): time.sleep(2)`; not one that only tells, once, how long it has taken."""

    def rows(second: int) -> Rows:
        asks = msgspec.structs.replace(
            stack("main", "job.py:24 main", at=second), tests=tests, limits=("end", BY_CLOCK), contents=()
        )
        naps = blocked("clock_nanosleep", ran_at=START + second - 0.5, wakes_at=START + second + 0.5)
        return process(), thread(slices=9 * second), asks, naps

    assert (seen(rows, seconds=20).verdict is Verdict.HUNG) is hangs


# Stopped in a loop that got on


def test_a_stopped_process_stands_since_it_last_ran() -> None:
    def rows(at: int) -> Rows:
        runs = sleeper(ROOT, min(at, 5))
        return runs if at <= 5 else (*runs[:-1], blocked("clock_nanosleep", state="T", ran_at=START + 5))

    found = seen(rows, seconds=18)
    assert (found.verdict, found.findings[0].cause, found.since) == (Verdict.HUNG, "stopped", START + 5)


def test_what_the_kernel_says_of_a_process_now_outranks_the_look_of_before() -> None:
    """The state of a process is read in each round, what its threads wait in only now and then."""

    def rows(at: int) -> Rows:
        main, *others = sleeper(ROOT, min(at, 5))
        return (main, *others) if at <= 5 else (msgspec.structs.replace(main, state="T"), *others)

    found = seen(rows, seconds=18)
    assert (found.verdict, found.findings[0].cause) == (Verdict.HUNG, "stopped")


# A look that is too short


def test_who_was_never_seen_to_move_is_not_called_healthy() -> None:
    """Nor hung, before it has stood for so long."""

    def waits(second: int) -> Rows:
        return process(), thread(), stack("main", *IN_EVENT), blocked("futex")

    told = [seen(waits, seconds) for seconds in range(1, 8)]
    assert [row.verdict for row in told] == [Verdict.UNKNOWN] * 5 + [Verdict.HUNG] * 2
    assert told[2].because == (
        "main is waiting for a threading event at job.py:40, and has stood still for 2 s: "
        "only a longer observation can tell whether it hangs"
    )
    assert not told[2].settled


@pytest.mark.parametrize(("worker_runs", "verdict"), [(False, Verdict.UNKNOWN), (True, Verdict.HEALTHY)])
def test_who_waits_for_one_that_runs_does_not_stand(worker_runs: bool, verdict: Verdict) -> None:
    def waits(second: int) -> Rows:
        return (
            process(), thread(), stack("main", "lib/subprocess.py:1264 Popen.wait", "job.py:7 main"),
            blocked("wait4", kernel_object(f"process:{CHILD}").id),
            process(CHILD, parent=ROOT, cmdline=("python", "work.py")), thread(CHILD, slices=second if worker_runs else 1),
            stack("main", "work.py:3 main", pid=CHILD, at=second), blocked("clock_nanosleep", pid=CHILD),
        )  # fmt: skip

    assert seen(waits, 3).verdict is verdict


def test_who_was_seen_to_move_before_is_healthy_for_a_while() -> None:
    def waits(second: int) -> Rows:
        return process(), thread(slices=min(second, 3)), stack("main", *IN_EVENT, at=second), blocked("futex")

    assert seen(waits, 6).verdict is Verdict.HEALTHY


@pytest.mark.parametrize(
    "caller", ["job.py:40 <module>", "site-packages/apscheduler/schedulers/blocking.py:32 _main_loop"]
)
def test_a_wait_with_a_limit_ends_by_itself(caller: str) -> None:
    """A heartbeat, or a scheduler: it waits for a sign for 20 s, and has something to do when none came."""

    def rows(second: int) -> Rows:
        waits = blocked("futex", "futex:4100:0x10", ran_at=START, wakes_at=START + 20)
        return process(), thread(), stack("main", *IN_EVENT[:2], caller, at=second), waits

    assert seen(rows).verdict is not Verdict.HUNG


@pytest.mark.parametrize(
    ("file", "function", "hangs"),
    [("apscheduler/schedulers/blocking.py", "_main_loop", False), ("tqdm/_monitor.py", "TMonitor.run", True)],
)
def test_a_library_s_own_thread_may_have_something_to_do(file: str, function: str, *, hangs: bool) -> None:
    """A scheduler, whose jobs may set the event that the main thread waits for; but not who looks after progress bars."""

    def rows(second: int) -> Rows:
        timed = blocked("futex", "futex:4100:0x10", tid=CHILD, ran_at=START, wakes_at=START + 20)
        return (
            process(), thread(), stack("main", *IN_EVENT, at=second), blocked("futex", "futex:4100:0x20", ran_at=START),
            thread(ROOT, CHILD), stack("own", *IN_EVENT[:2], f"site-packages/{file}:28 {function}", tid=CHILD, at=second),
            timed,
        )  # fmt: skip

    assert (seen(rows).verdict is Verdict.HUNG) is hangs


def test_a_library_that_takes_up_its_wait_again_tries_again() -> None:
    def rows(second: int) -> Rows:
        turn = second // 8
        waits = blocked("futex", "futex:4100:0x10", ran_at=START + 8 * turn, wakes_at=START + 8 * turn + 8)
        library = "site-packages/torch/store.py:7 barrier"
        return process(), thread(slices=turn + 1), stack("main", *IN_EVENT[:2], library, at=second), waits

    assert seen(rows, 61).verdict is Verdict.HUNG


def test_a_process_whose_first_thread_has_ended_goes_on() -> None:
    assert process(state="Z").ended
    assert not process(state="Z", threads=2).ended


# Ends


def test_the_child_of_one_that_waits_for_it_ended_after_the_processes_were_listed() -> None:
    """wait(2) does not block without a child, so that no such moment can last."""
    waits = (process(), thread(), stack("main", "launch.py:996 launch"), blocked("wait4", "process:4200", ran_at=0.0))
    assert seen(lambda _: waits).verdict is Verdict.HEALTHY


@pytest.mark.parametrize(("sleeps_s", "hangs"), [(40, False), (86400, True)])
def test_what_a_thread_polls_for_may_come_from_another_one_whose_sleep_ends(sleeps_s: int, *, hangs: bool) -> None:
    """A rate limiter that is filled up every 40 s, as against one that is filled up once a day."""

    def rows(second: int) -> Rows:
        polls = msgspec.structs.replace(stack("main", "job.py:9 acquire", at=second), tests=(".left",))
        return (
            process(), thread(slices=3 * second), polls,
            blocked("clock_nanosleep", wakes_at=START + second + 0.3, ran_at=START + second - 0.2),
            thread(ROOT, NATIVE), stack("refill", "job.py:14 refill", tid=NATIVE),
            blocked("clock_nanosleep", tid=NATIVE, ran_at=START, wakes_at=START + sleeps_s),
        )  # fmt: skip

    assert (seen(rows, 20).verdict is Verdict.HUNG) is hangs


@pytest.mark.parametrize(("ends", "hangs"), [(False, True), (True, False)])
def test_a_wait_for_a_child_that_has_ended_is_over(*, ends: bool, hangs: bool) -> None:
    """The kernel was not asked since, and another child sleeps for a day."""
    other = CHILD + 1
    child = process(CHILD, parent=ROOT)
    ended = Exit(pid=CHILD, start_time=child.start_time, seen_at=START + 5, process=child)

    def asleep(pid: int) -> Rows:
        waits = blocked("clock_nanosleep", pid=pid, ran_at=0.0, wakes_at=START + 86400)
        return process(pid, parent=ROOT), thread(pid), stack("main", "job.py:30 work", pid=pid), waits

    def rows(second: int) -> Rows:
        return (
            process(), thread(), stack("main", "job.py:7 main"),
            blocked("wait4", f"process:{CHILD}", ran_at=0.0), kernel_object(f"process:{CHILD}"),
            *asleep(other), *((ended,) if ends and second > 5 else asleep(CHILD)),
        )  # fmt: skip

    assert (seen(rows, 14).verdict is Verdict.HUNG) is hangs


def test_two_looks_far_apart_are_too_few_to_call_a_job_that_waits_healthy() -> None:
    """On a machine that has no time for it."""
    rows = (
        process(), thread(), stack("main", "lib/subprocess.py:1264 Popen.wait", "job.py:7 main"),
        blocked("wait4", f"process:{CHILD}", ran_at=0.0), *sleeper(CHILD, 0),
    )  # fmt: skip
    found = diagnosed([snapshot(*rows, at=0.0), snapshot(*rows, at=8.0)])
    assert (found.verdict, found.because) == (
        Verdict.UNKNOWN, "observed for 8.0 s, but only 2 times: too seldom to tell",
    )  # fmt: skip


def test_a_thread_of_a_library_that_waits_for_its_work_is_idle() -> None:
    """Of twisted's pool, beside a reactor that waits for the world."""
    work = f"{PACKAGES}/twisted/_threads/_threadworker.py:75 work"

    def rows(second: int) -> Rows:
        return (
            process(), thread(slices=second),
            stack("main", f"{PACKAGES}/twisted/internet/epollreactor.py:230 doPoll", "job.py:9 main"),
            blocked("epoll_wait", "socket:7", timeout_s=20.0), kernel_object("socket:7", listens=True),
            thread(ROOT, NATIVE), stack("pool", "lib/queue.py:171 Queue.get", work, tid=NATIVE),
            blocked("futex", tid=NATIVE, ran_at=0.0),
        )  # fmt: skip

    assert seen(rows).verdict is not Verdict.HUNG


def test_who_waits_for_a_stranger_with_a_limit_goes_on_by_itself() -> None:
    """A worker that asks a broker for work."""

    def rows(limit: float | None) -> Callable[[int], Rows]:
        waits = blocked("poll", "socket:7", ran_at=START, timeout_s=limit)
        broker = kernel_object("socket:7", path="tcp 127.0.0.1:4000 to 10.0.0.2:6379")
        return lambda second: (process(), thread(), stack("main", "worker.py:5 <module>", at=second), waits, broker)

    assert seen(rows(405.0)).verdict is not Verdict.HUNG
    assert seen(rows(None)).verdict is Verdict.HUNG


@pytest.mark.parametrize(("catches", "hangs"), [(True, False), (False, True)])
def test_a_flag_in_a_loop_is_for_a_handler_to_change(*, catches: bool, hangs: bool) -> None:
    """`while running: time.sleep(1)` in a worker that has threads to do the work."""

    def rows(second: int) -> Rows:
        naps = msgspec.structs.replace(stack("main", "cli.py:476 work", pid=CHILD, at=second), tests=("?",))
        return (
            process(), thread(), stack("main", "lib/subprocess.py:1264 Popen.wait", "job.py:7 main"),
            blocked("wait4", f"process:{CHILD}", ran_at=0.0), kernel_object(f"process:{CHILD}"),
            process(CHILD, parent=ROOT, catches_term=catches), thread(CHILD, slices=second), naps,
            blocked("clock_nanosleep", pid=CHILD, wakes_at=START + second + 0.5, ran_at=START + second - 0.5),
            thread(CHILD, NATIVE),
            stack("worker", "lib/queue.py:171 Queue.get", f"{PACKAGES}/dramatiq/worker.py:9 run", pid=CHILD, tid=NATIVE),
            blocked("futex", pid=CHILD, tid=NATIVE, ran_at=0.0),
        )  # fmt: skip

    assert (seen(rows, 20).verdict is Verdict.HUNG) is hangs


@pytest.mark.parametrize(("faults", "hangs"), [(90, False), (0, True)])
def test_children_that_no_look_has_found_were_there(faults: int, *, hangs: bool) -> None:
    """A scheduler that starts a short program every second: their page faults are counted where they were waited for."""

    def rows(second: int) -> Rows:
        waits = blocked("futex", "futex:4100:0x10", ran_at=START + second, wakes_at=START + second + 1)
        return process(child_faults=second * faults), thread(slices=second), stack("main", *IN_EVENT, at=second), waits

    assert (seen(rows, 21).verdict is Verdict.HUNG) is hangs


def test_who_is_ready_to_run_and_gets_no_cpu_does_not_stand() -> None:
    """On a machine with too much to do it may not be put on a CPU for many seconds."""
    waits = (
        process(), thread(), stack("main", "lib/subprocess.py:1264 Popen.wait", "job.py:7 main"),
        blocked("wait4", f"process:{CHILD}", ran_at=0.0), kernel_object(f"process:{CHILD}"),
        process(CHILD, parent=ROOT), thread(CHILD), stack("main", "job.py:30 work", pid=CHILD), running(CHILD),
    )  # fmt: skip
    assert seen(lambda _: waits).verdict is not Verdict.HUNG


@pytest.mark.parametrize(
    ("frames", "verdict"),
    [
        (("site-packages/IPython/terminal/interactiveshell.py:815 prompt",), Verdict.HEALTHY),
        (("site-packages/ipdb/shell.py:9 ask", "lib/pdb.py:386 Pdb.interaction"), Verdict.HUNG),
    ],
)
def test_a_program_of_a_library_waits_by_right_for_what_is_typed_unless_a_debugger_asks(
    frames: tuple[str, ...], verdict: Verdict
) -> None:
    def rows(_: int) -> Rows:
        asks = blocked("read", "terminal:/dev/pts/0", ran_at=START - 60)
        return process(cmdline=("python", "-m", "IPython")), thread(), stack("main", *frames), asks

    assert seen(rows).verdict is verdict


@pytest.mark.parametrize(("limit", "verdict"), [(24.0, Verdict.SLOW), (0.5, Verdict.HUNG)], ids=["a-timer", "polls"])
def test_a_loop_that_acts_at_its_next_timer(limit: float, verdict: Verdict) -> None:
    """A reactor of some library that deals out work now and then; the client waits for it. It may act once its time has
    come, unlike one that only looks whether something came.
    """

    def rows(second: int) -> Rows:
        return (
            process(), thread(), stack("main", "job.py:37 work"), blocked("recvfrom", "socket:8", ran_at=START - 9),
            holds(ROOT, "socket:8"), kernel_object("socket:8", peer="socket:9"),
            process(CHILD, parent=ROOT), thread(CHILD, slices=min(5, second)),
            stack("main", "job.py:30 serve", pid=CHILD, at=min(5, second)),
            blocked("epoll_wait", "socket:9", pid=CHILD, timeout_s=limit, ran_at=START),
            holds(CHILD, "socket:9"), kernel_object("socket:9", peer="socket:8"),
        )  # fmt: skip

    assert seen(rows, 8).verdict is verdict


# Loops with timers of their own

TRIO = "/usr/lib/python3/site-packages/trio/_core"


@pytest.mark.parametrize(("kind", "peer"), [("socket", "socket:8"), ("pipe", None)], ids=["trio", "twisted"])
def test_a_loop_that_watches_only_its_own_wake_up_pipe_goes_on_by_its_timers(kind: str, peer: str | None) -> None:
    """Its tasks are not known, so they may sleep and do something each time."""
    calls = (f"{TRIO}/_io_epoll.py:227 get_events", f"{TRIO}/_run.py:2560 unrolled_run", "job.py:37 <module>")
    waked = KernelObject(id=f"{kind}:7", kind=kind, peer=peer)
    ends = [holds(ROOT, name) for name in (waked.id, peer) if name]
    found = diagnosed([
        snapshot(
            process(), thread(slices=2 * at), stack("main", *calls, at=at), waked, *ends,
            blocked("epoll_wait", waked.id, ran_at=START + at, timeout_s=1.0), at=float(at),
        )
        for at in range(20)
    ])  # fmt: skip
    assert found.verdict is not Verdict.HUNG


@pytest.mark.parametrize(("connected", "hung"), [(True, False), (False, True)])
def test_a_native_program_is_told_by_a_daemon_outside_when_to_go_on(*, connected: bool, hung: bool) -> None:
    """It also polls the pipe by which its own signal handlers wake it."""
    pipe, near = kernel_object("pipe:7"), kernel_object("socket:8", path="unix", peer="socket:9")

    def rows(at: int) -> Rows:
        waits = blocked("poll", "pipe:7", *(["socket:8"] if connected else []), pid=CHILD, ran_at=0.0)
        child = process(CHILD, parent=ROOT, cmdline=("tmux", "wait-for")), thread(CHILD), waits
        joins = (
            process(),
            thread(),
            stack("main", "job.py:9 main", at=at),
            blocked("wait4", f"process:{CHILD}", ran_at=0.0),
        )
        unread = Unknown(table="stacks", pid=CHILD, reason=NOT_PYTHON)
        return (*joins, *child, unread, pipe, near, holds(CHILD, "pipe:7"), holds(CHILD, "socket:8"))

    assert (seen(rows, 45).verdict is Verdict.HUNG) is hung


@pytest.mark.parametrize(
    ("loop", "hung"),
    [
        ({"keeps_books": True, "books": ("pages",)}, False),
        ({"keeps_books": True, "books": (".seen",)}, True),
        ({"polls_for": (".stopped",), "books": ("pages",)}, False),
    ],
    ids=["counts-it", "counts-something", "until-it-is-stopped"],
)
def test_what_main_polls_for_may_come_of_a_thread_that_changes_it(*, loop: dict[str, object], hung: bool) -> None:
    """The thread sleeps for seconds, so that what it changes was not seen to change."""

    def rows(at: int) -> Rows:
        asks = sleeper(ROOT, at)
        main = msgspec.structs.replace(asks[2], tests=("?",), limits=(), polls_for=("len", "pages"))
        other = msgspec.structs.replace(
            stack("collect", "job.py:9 collect", tid=OTHER, at=at), tests=(), limits=(), **loop
        )
        wakes = blocked("clock_nanosleep", tid=OTHER, ran_at=START + at - 2, wakes_at=START + at + 2)
        return (*asks[:2], main, asks[3], other, thread(ROOT, OTHER, slices=at), wakes)

    assert (seen(rows).verdict is Verdict.HUNG) is hung
