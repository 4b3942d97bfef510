"""A client of a library whose workers all wait for work: nobody has begun what it asks for."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from mpmon.diagnosis.findings import Diagnosis, Verdict
from mpmon.diagnosis.stacks.shapes import Shape, shape
from mpmon.model import KernelObject, LockUse, Row, Unknown
from tests.builders import (
    ROOT,
    START,
    blocked,
    diagnosed,
    frame,
    holds,
    kernel_object,
    process,
    running,
    snapshot,
    stack,
    thread,
)

WORKER, ANOTHER, UNKNOWN, NATIVE = 4121, 4122, 4152, 4190
RAY = "/usr/lib/python3/site-packages/ray/_private/worker.py"
IDLE = (f"{RAY}:1069 Worker.main_loop",)
RUNS = ("job.py:30 load", f"{RAY}:1069 Worker.main_loop")

Rows = tuple[Row, ...]


def asks(at: int) -> Rows:
    """The main program in `ray.get`, which tries again five times a second; threads of the library are at work for it."""
    return (
        process(), thread(slices=5 * at), stack("main", f"{RAY}:3009 get", "job.py:11 main"),
        blocked("futex", "futex:4100:0x70", wakes_at=START + at + 0.2),
        thread(ROOT, NATIVE, slices=at, name="worker.io"), blocked("futex", tid=NATIVE, ran_at=START + at),
    )  # fmt: skip


def worker(pid: int, at: int, *frames: str, cpu_s: float = 0.0) -> Rows:
    """Its main thread ticks, as Ray's workers do."""
    return (
        process(pid, parent=ROOT, cmdline=("ray::IDLE",), cpu_s=cpu_s), thread(pid, slices=90 * at),
        stack("main", *frames, pid=pid, at=at), blocked("epoll_wait", pid=pid),
    )  # fmt: skip


def seen(*frames: str, seconds: int = 15, cpu: float = 0.0, more: Rows = ()) -> Diagnosis:
    """What is said after so many seconds of a job with one idle worker, and one in these frames."""
    return diagnosed([
        snapshot(
            *asks(at), *worker(WORKER, at, *IDLE),
            *worker(ANOTHER, at, *frames, cpu_s=cpu * at), *more, at=float(at),
        )
        for at in range(seconds)
    ])  # fmt: skip


def test_a_task_that_no_worker_begins() -> None:
    found = seen(*IDLE)
    assert [(row.cause, [suspect.pid for suspect in row.suspects]) for row in found.findings] == [("item-lost", [ROOT])]
    assert "a task of ray, but none of the workers of ray has a task" in found.because


LAUNCHER = "/usr/lib/python3/site-packages/ray/autoscaler/_private/node_launcher.py"
OF_THREAD = ("lib/threading.py:1045 Thread._bootstrap_inner", "lib/threading.py:1002 Thread._bootstrap")


def test_threads_of_the_library_that_wait_in_a_queue_wait_for_work_too() -> None:
    waits = (
        "lib/threading.py:327 Condition.wait",
        "lib/queue.py:171 Queue.get",
        f"{LAUNCHER}:219 NodeLauncher.run",
        *OF_THREAD,
    )
    launcher = UNKNOWN + 1
    found = diagnosed([
        snapshot(
            *asks(at), *worker(WORKER, at, *IDLE), process(UNKNOWN, parent=ROOT, cmdline=("monitor.py",)), thread(UNKNOWN),
            stack("main", f"{LAUNCHER}:9 main", pid=UNKNOWN, at=at), blocked("clock_nanosleep", pid=UNKNOWN, ran_at=START),
            thread(UNKNOWN, launcher), stack("launcher", *waits, pid=UNKNOWN, tid=launcher, at=at),
            blocked("futex", "futex:4152:0x10", pid=UNKNOWN, tid=launcher, ran_at=START), at=float(at),
        )
        for at in range(15)
    ])  # fmt: skip
    assert [row.cause for row in found.findings] == ["item-lost"]


SUBMITIT = "/usr/lib/python3/site-packages/submitit/core"


def test_a_library_that_polls_for_a_result_waits_for_its_tasks() -> None:
    """It asks `done()` once a second; the task is in a process of its own, which has been stopped."""
    found = diagnosed([
        snapshot(
            process(), thread(slices=at), blocked("clock_nanosleep", wakes_at=START + at + 1.0, ran_at=START + at),
            msgspec.structs.replace(
                stack("main", f"{SUBMITIT}/core.py:401 Job.wait", f"{SUBMITIT}/core.py:267 Job.result", "job.py:36 main", at=at),
                tests=("done",),
            ),
            process(ANOTHER, parent=ROOT, cmdline=("python", "-m", "submitit.local")), thread(ANOTHER, slices=at),
            stack("main", frame(f"{SUBMITIT}/local.py:366 wait", others=at), pid=ANOTHER, at=at),
            blocked("clock_nanosleep", pid=ANOTHER, wakes_at=START + at + 0.1, ran_at=START + at),
            process(WORKER, parent=ANOTHER, state="T"), thread(WORKER), blocked("kill", pid=WORKER, state="T", ran_at=START),
            stack("main", "job.py:18 check", f"{SUBMITIT}/utils.py:137 result", f"{SUBMITIT}/submission.py:76 main", pid=WORKER),
            at=float(at),
        )
        for at in range(12)
    ])  # fmt: skip
    assert [(row.cause, [suspect.pid for suspect in row.suspects]) for row in found.findings] == [("stopped", [WORKER])]


CELERY = "/usr/lib/python3/site-packages/celery"
BILLIARD = "/usr/lib/python3/site-packages/billiard"
POOL = (f"{BILLIARD}/connection.py:425 Connection._recv", f"{BILLIARD}/pool.py:506 Worker._make_recv_method.<locals>._recv",
        f"{BILLIARD}/pool.py:357 Worker.workloop", f"{BILLIARD}/process.py:356 BaseProcess._bootstrap")  # fmt: skip


def test_the_workers_of_a_pool_that_serves_the_library() -> None:
    """The client counts how long it has waited, so that it seems to move."""
    found = diagnosed([
        snapshot(
            process(), thread(slices=2 * at), blocked("clock_nanosleep", wakes_at=START + at + 0.5),
            stack("main", frame(f"{CELERY}/backends/base.py:1152 wait_for", others=at), "job.py:16 main"),
            process(WORKER, parent=ROOT), thread(WORKER, slices=at), stack("main", f"{CELERY}/worker.py:9 loop", pid=WORKER),
            blocked("clock_nanosleep", pid=WORKER, wakes_at=START + at + 0.5),
            process(ANOTHER, parent=WORKER), thread(ANOTHER), stack("main", *POOL, pid=ANOTHER),
            blocked("read", "pipe:7", pid=ANOTHER, ran_at=0.0), at=float(at),
        )
        for at in range(15)
    ])  # fmt: skip
    assert [(row.cause, [suspect.pid for suspect in row.suspects]) for row in found.findings] == [("item-lost", [ROOT])]


UNREAD: Rows = (
    process(UNKNOWN, parent=ROOT, cmdline=("ray::simulate",)), thread(UNKNOWN),
    Unknown(table="stacks", pid=UNKNOWN, reason="thread 4152 kept running while it was read"),
)  # fmt: skip
FAR = KernelObject(id="socket:7", kind="socket", path="tcp 10.0.0.1:4000 to 10.0.0.2:6379")
WAYS = {
    "one has a task": lambda: seen(*RUNS),
    "one is in a function of C": lambda: seen(f"{RAY}:500 execute", f"{RAY}:1069 Worker.main_loop"),
    "one computes in native code": lambda: seen(*IDLE, cpu=0.5),
    "one runs, and could not be read": lambda: seen(*IDLE, more=UNREAD),
    "a worker is being started": lambda: seen(*IDLE, seconds=9),
    "others may be on another machine": lambda: seen(*IDLE, more=(FAR,)),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_somebody_may_be_at_it(way: Callable[[], Diagnosis]) -> None:
    assert way().verdict is not Verdict.HUNG


def test_a_worker_has_run_since_it_was_found_importing() -> None:
    """What it does now is not known: it may have a task, and use little of a CPU for it."""
    found = diagnosed([
        snapshot(
            *asks(at), *worker(WORKER, at, *IDLE), process(UNKNOWN, parent=ROOT, cmdline=("ray::Index.__init__",)),
            thread(UNKNOWN, slices=5 * at), stack("main", "lib/re/_parser.py:503 _parse_sub", pid=UNKNOWN, at=0),
            running(UNKNOWN), at=float(at),
        )
        for at in range(15)
    ])  # fmt: skip
    assert found.verdict is not Verdict.HUNG


# A ProcessPoolExecutor without a worker

RESULT = ("lib/threading.py:327 Condition.wait", "concurrent/futures/_base.py:451 Future.result", "job.py:44 scan")
COLLECTS = ("concurrent/futures/process.py:410 wait_result_broken_or_wakeup", "concurrent/futures/process.py:330 run")
IN_QUEUE = ("multiprocessing/connection.py:395 Connection._recv", "multiprocessing/queues.py:103 Queue.get")
OF_PROCESS = ("multiprocessing/process.py:108 BaseProcess.run", "multiprocessing/process.py:314 BaseProcess._bootstrap")
SPAWNED = ("lib/importlib/_bootstrap.py:241 _call_with_frames_removed", "multiprocessing/spawn.py:122 spawn_main")


@pytest.mark.parametrize(
    ("frames", "hangs"),
    [((*IN_QUEUE, "job.py:27 archive", *OF_PROCESS), True), (SPAWNED, False)],
    ids=["another-process", "a-worker-that-starts"],
)
def test_an_executor_that_has_no_worker_left(frames: tuple[str, ...], *, hangs: bool) -> None:
    """The last one ended after its share of tasks, and no other one was started."""
    collector = 4150

    def rows(at: int) -> Rows:
        return (
            process(), thread(), stack("main", *RESULT), blocked("futex", "futex:4100:0x10", ran_at=START),
            thread(ROOT, collector), stack("manager", *COLLECTS, tid=collector), blocked("poll", tid=collector, ran_at=START),
            process(WORKER, parent=ROOT), thread(WORKER, slices=9 * at if not hangs else 9),
            stack("main", *frames, pid=WORKER, at=at if not hangs else 0),
            blocked("read", "pipe:7", pid=WORKER, ran_at=START) if hangs else running(WORKER),
        )  # fmt: skip

    found = diagnosed([snapshot(*rows(at), at=float(at)) for at in range(12)])
    assert (found.verdict is Verdict.HUNG) == hangs
    if hangs:
        (finding,) = found.findings
        assert [suspect.pid for suspect in finding.suspects] == [ROOT]
        assert "the executor has no worker process left" in finding.summary


JOBLIB = "site-packages/joblib"
TAKES = (
    "multiprocessing/connection.py:250 _ConnectionBase.recv", f"{JOBLIB}/pool.py:144 get",
    "multiprocessing/pool.py:114 worker",
)  # fmt: skip
WORKS = ("job.py:12 score", "multiprocessing/pool.py:125 worker")


def of_joblib(*others: tuple[str, ...], seconds: int = 15) -> Diagnosis:
    """The main program looks a hundred times a second whether the results of joblib's workers are there."""
    polls = msgspec.structs.replace(
        stack("main", f"{JOBLIB}/parallel.py:1822 Parallel._retrieve", "job.py:20 <module>"),
        tests=("._aborting", "_wait_retrieval"),
    )  # fmt: skip
    return diagnosed([
        snapshot(
            process(), thread(slices=100 * at), polls, blocked("clock_nanosleep", wakes_at=START + at + 0.01),
            *(row for place, frames in enumerate(others) for row in _worker_of_pool(WORKER + place, at, frames)),
            at=float(at),
        )
        for at in range(seconds)
    ])  # fmt: skip


def _worker_of_pool(pid: int, at: int, frames: tuple[str, ...]) -> Rows:
    runs = frames is WORKS
    waits = running(pid) if runs else blocked("read", pid=pid, ran_at=START)
    return (
        process(pid, parent=ROOT, cpu_s=float(at) if runs else 0.0), thread(pid, slices=90 * at if runs else 10),
        stack("main", *frames, pid=pid, at=at if runs else 0.0), waits,
    )  # fmt: skip


def test_a_result_that_is_polled_for_and_on_which_no_worker_works_is_lost() -> None:
    found = of_joblib(TAKES, TAKES)
    assert [(row.cause, [suspect.pid for suspect in row.suspects]) for row in found.findings] == [("item-lost", [ROOT])]


def test_of_a_pool_elsewhere_nothing_is_known() -> None:
    """joblib with Dask or Spark: the workers are no processes of the job."""
    assert not [row for row in of_joblib().findings if row.cause == "item-lost" or "no thread is left" in row.summary]


def test_a_worker_at_work_may_bring_it() -> None:
    assert of_joblib(TAKES, WORKS).verdict is not Verdict.HUNG


FLEET = "site-packages/fleet"
ASKS_FLEET = (
    "lib/threading.py:327 Condition.wait", "lib/threading.py:629 Event.wait", f"{FLEET}/sync.py:40 sync",
)  # fmt: skip


def enters_block(pid: int, line: int) -> Rows:
    """A task of the library sleeps, in the library again, on its way into a block of a named lock."""
    frames = (*ASKS_FLEET, f"{FLEET}/lock.py:9 Lock.__enter__", f"job.py:{line} ingest", f"{FLEET}/worker.py:20 run")
    return (
        process(pid, parent=ROOT), thread(pid), stack("main", *frames, pid=pid),
        blocked("futex", f"futex:{pid}:0x10", pid=pid, ran_at=START),
        LockUse(pid=pid, tid=pid, object="block:0badcafe", kind="Lock", holds=False, exact=False, asleep=True),
    )  # fmt: skip


def in_block(pid: int) -> Row:
    return LockUse(
        pid=pid, tid=pid, object="block:0badcafe", kind="Lock", holds=True, function="ingest", depth=1, exact=False
    )


def fleet(*inside: Row) -> Diagnosis:
    asks_it = (
        process(), thread(), stack("main", *ASKS_FLEET, f"{FLEET}/client.py:8 gather", "job.py:30 <module>"),
        blocked("futex", "futex:4100:0x10", ran_at=START),
    )  # fmt: skip
    rows = (*asks_it, *enters_block(WORKER, 7), *enters_block(ANOTHER, 7), *inside)
    return diagnosed([snapshot(*rows, at=float(at)) for at in range(15)])


@pytest.mark.parametrize(
    ("inside", "blamed"),
    [((ANOTHER,), [ANOTHER]), ((), [WORKER, ANOTHER]), ((WORKER, ANOTHER), [WORKER, ANOTHER])],
    ids=["one is in such a block already", "nobody is", "both are"],
)
def test_of_tasks_that_take_one_lock_the_one_inside_is_to_blame(inside: tuple[int, ...], blamed: list[int]) -> None:
    found = fleet(*map(in_block, inside))
    assert found.verdict is Verdict.HUNG
    assert [suspect.pid for suspect in found.findings[0].suspects] == blamed


GZIP, TASK = 4160, 4161
IN_LOOP = ("lib/selectors.py:468 EpollSelector.select", "asyncio/base_events.py:1884 BaseEventLoop._run_once")
UNPACKS = (
    "lib/subprocess.py:2004 Popen._try_wait", "lib/subprocess.py:1264 Popen.wait", "logs.py:10 unpack",
    f"{FLEET}/worker.py:20 run",
)  # fmt: skip


def unpacking(*watched: str, frames: tuple[str, ...] = UNPACKS) -> Diagnosis:
    """A task waits for the end of gzip, which cannot write; the main thread of its worker is an event loop."""
    return diagnosed([
        snapshot(
            process(), thread(), stack("main", *ASKS_FLEET, f"{FLEET}/client.py:8 gather", "job.py:30 <module>"),
            blocked("futex", "futex:4100:0x10", ran_at=START),
            process(WORKER, parent=ROOT), thread(WORKER, slices=9 * at), stack("main", *IN_LOOP, pid=WORKER),
            blocked("epoll_wait", "socket:5", *watched, pid=WORKER, timeout_s=0.5), kernel_object("socket:5"),
            thread(WORKER, TASK), stack("task", *frames, pid=WORKER, tid=TASK),
            blocked("wait4", f"process:{GZIP}", pid=WORKER, tid=TASK, ran_at=START),
            process(GZIP, parent=WORKER, name="gzip", cmdline=("gzip", "-dc", "a.gz")), thread(GZIP),
            blocked("write", "pipe:7", pid=GZIP, ran_at=START, writes=True),
            kernel_object("pipe:7", kind="pipe", fill=65536, capacity=65536), holds(GZIP, "pipe:7", reads=False),
            holds(WORKER, "pipe:7", writes=False), at=float(at),
        )
        for at in range(15)
    ])  # fmt: skip


def test_the_task_that_has_started_a_program_has_its_pipe_and_not_the_event_loop_beside_it() -> None:
    found = unpacking()
    assert [(row.cause, [suspect.pid for suspect in row.suspects]) for row in found.findings] == [
        ("pipe-full", [WORKER])
    ]


@pytest.mark.parametrize(
    ("watched", "frames"),
    [(("pipe:7",), UNPACKS), ((), ("asyncio/unix_events.py:1418 ThreadedChildWatcher._do_waitpid",))],
    ids=["the loop watches the pipe", "only the loop's own watcher waits for its end"],
)
def test_an_event_loop_that_may_read_the_pipe(watched: tuple[str, ...], frames: tuple[str, ...]) -> None:
    assert "pipe-full" not in [row.cause for row in unpacking(*watched, frames=frames).findings]


def test_a_scene_of_the_demo_is_a_program_and_mpmon_no_library_of_it() -> None:
    scene = "site-packages/mpmon/demo"
    found = shape(
        stack("main", f"{scene}/loader_without_torch.py:40 get", "loader.py:42 main", f"{scene}/running.py:9 run")
    )
    assert found == Shape()


def keeps_lock(*, run_s: float, seconds: int = 15) -> Diagnosis:
    """Main waits for a task of Ray, which waits for a file's lock; the worker that has it is at rest, and runs a hundred times a
    second for a timer of its loop.
    """
    return diagnosed([
        snapshot(
            *asks(at), process(WORKER, parent=ROOT, cmdline=("ray::IDLE",)), thread(WORKER, slices=100 * at, run_s=run_s * at),
            stack("main", *IDLE, pid=WORKER, at=at),
            blocked("epoll_wait", "timerfd:6", "eventfd:7", pid=WORKER, ran_at=START + at), kernel_object("timerfd:6"),
            kernel_object("eventfd:7"),
            process(ANOTHER, parent=ROOT, cmdline=("ray::load",)), thread(ANOTHER), stack("main", *RUNS, pid=ANOTHER),
            blocked("flock", "file lock:9", pid=ANOTHER, ran_at=START),
            kernel_object("file lock:9", path="rows.csv", holders=(WORKER,)), at=float(at),
        )
        for at in range(seconds)
    ])  # fmt: skip


def test_a_worker_that_only_ticks_will_not_give_back_the_lock_of_a_file() -> None:
    (finding,) = keeps_lock(run_s=0.004).findings
    assert (finding.cause, [row.pid for row in finding.suspects]) == ("lock-held", [WORKER])


def test_one_that_runs_for_more_than_its_timer_was_given_work() -> None:
    assert keeps_lock(run_s=0.1).verdict is not Verdict.HUNG
