"""Short builders of observations, and a watch that plays them."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING

import msgspec

from mpmon.diagnosis import History, diagnose
from mpmon.diagnosis.findings import Diagnosis, Event, Observation, ProcessView, Verdict
from mpmon.model import (
    NOT_PYTHON,
    Blocked,
    Exit,
    Frame,
    Gpu,
    GpuProcess,
    Handle,
    KernelObject,
    Process,
    Snapshot,
    Stack,
    Thread,
    Unknown,
)
from mpmon.snapshot_buffer import SnapshotBuffer
from tests.builders import view

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mpmon.errors import MpmonError

NOW = 1767225852.0
"""The moment of the snapshots; nothing here reads a clock."""

MIB = 1024 * 1024
USER_FILE = "/home/ada/cats/dataset.py"
LIBRARY = "/usr/lib/python3.11"
TORCH = "/usr/lib/python3/dist-packages/torch/utils/data"
TRACKER_COMMAND = ("/usr/bin/python3", "-c", "from multiprocessing.resource_tracker import main;main(5)")


class FakeWatch:
    """Plays what it is fed and notes what it was asked."""

    def __init__(self, *observations: Observation, live: bool = True, title: str = "pid 4100") -> None:
        self.live = self.is_here = live
        self.title = title
        self.speed = 1.0
        self.length: int | None = None
        self.buffer = SnapshotBuffer()
        self.asked: list[object] = []
        self._queue: queue.SimpleQueue[Observation | MpmonError | None] = queue.SimpleQueue()
        for observation in observations:
            self.feed(observation)

    def feed(self, item: Observation | MpmonError | None) -> None:
        """An observation, an error to raise, or `None` for the end."""
        self._queue.put(item)

    def __iter__(self) -> Iterator[Observation]:
        while (item := self._queue.get()) is not None:
            if isinstance(item, Exception):
                raise item
            self.buffer.add(item)
            yield item

    def look_now(self) -> None:
        self.asked.append("look")

    def attend(self, pid: int | None) -> None:
        self.asked.append(("attend", pid))

    def enter(self, host: str) -> None:
        self.asked.append(("enter", host))

    def stop(self) -> None:
        self.asked.append("stop")
        self.feed(None)

    def pause(self, paused: bool) -> None:
        self.asked.append(("pause", paused))

    def step(self) -> None:
        self.asked.append("step")

    def go(self, number: int) -> None:
        self.asked.append(("go", number))

    def find_hang(self) -> None:
        self.asked.append("find hang")


class BlockedWatch(FakeWatch):
    """Never comes back from its first look, whatever it is told."""

    def stop(self) -> None:
        self.asked.append("stop")


def process(
    pid: int, name: str = "python", *, ppid: int = 4100, state: str = "S", rss: int = 300 * MIB, **more: object
) -> Process:
    row = Process(
        pid=pid,
        start_time=NOW - 600,
        ppid=ppid,
        state=state,
        name=name,
        threads=5,
        cpu_s=12.5,
        rss_bytes=rss,
        cmdline=("/usr/bin/python3", "-u", "train.py", "--epochs", "3"),
    )
    return msgspec.structs.replace(row, **more)


def frame(function: str, file: str = USER_FILE, line: int = 1, **known: str) -> Frame:
    return Frame(function=function, file=file, line=line, known=known or None)


def stack(pid: int, *frames: Frame, tid: int | None = None, thread: str = "MainThread", at: float = NOW - 1) -> Stack:
    return Stack(pid=pid, tid=tid or pid, thread_name=thread, taken_at=at, frames=frames)


def observe(snapshot: Snapshot, diagnosis: Diagnosis) -> Observation:
    return Observation(snapshot=snapshot, diagnosis=diagnosis, watched_s=30.0)


def with_tables(observation: Observation, **tables: object) -> Observation:
    """The same with other facts."""
    return msgspec.structs.replace(observation, snapshot=msgspec.structs.replace(observation.snapshot, **tables))


def with_views(observation: Observation, *views: ProcessView) -> Observation:
    """The same with other words on each process."""
    return msgspec.structs.replace(
        observation, diagnosis=msgspec.structs.replace(observation.diagnosis, processes=views)
    )


WORKER_LOOP = frame("_worker_loop", f"{TORCH}/_utils/worker.py", 349)

LOADER, TRACKER, LOADER_WORKERS = 4100, 4110, (4120, 4121, 4122, 4123)
RESULTS, INDICES = "pipe:900", ("pipe:901", "pipe:902", "pipe:903", "pipe:904")
"""The pipes of a loader's queues: of batches, and of what each worker is asked for."""

STILL = ((TRACKER, TRACKER), (4121, 4121), (4121, 4130))
"""Threads that do not run at all: a watchdog of worker 1 among them."""

DAY_S = 86_400.0


def hung(*, now: float = NOW, since: float = NOW - 252) -> Observation:
    """One DataLoader worker sleeps in the user's code, everybody waits for it: what mpmon says after half a minute."""
    return diagnosed(stuck_loader(now + at, since) for at in range(-30, 1, 5))


def hung_twice() -> Observation:
    """A shell has started that job, and another program beside it that sleeps as well."""
    return diagnosed(beside_a_sleeper(stuck_loader(NOW + at, NOW - 252)) for at in range(-30, 1, 5))


def diagnosed(looks: Iterable[Snapshot]) -> Observation:
    """What mpmon says in the end."""
    history = History()
    for snapshot in looks:
        history = history.add(snapshot)
    assert history.snapshot is not None
    return observe(history.snapshot, diagnose(history))


SHELL, SLEEPER = 4000, 4150


def beside_a_sleeper(job: Snapshot) -> Snapshot:
    """The job of a shell, and a program that has slept a little longer."""
    command = ("/usr/bin/python3", "evaluate.py")
    return msgspec.structs.replace(
        job,
        root_pid=SHELL,
        processes=(
            process(SHELL, "bash", ppid=1, rss=4 * MIB, cmdline=("bash", "jobs.sh")),
            *job.processes,
            process(SLEEPER, ppid=SHELL, cmdline=command),
        ),
        threads=(*job.threads, *(Thread(pid=pid, tid=pid, name="python", slices=9, run_ns=10**9) for pid in (SHELL, SLEEPER))),
        stacks=(*job.stacks, stack(SLEEPER, frame("wait_for_file", "/home/ada/cats/evaluate.py", 17), at=NOW - 250)),
        blocked=(
            *job.blocked,
            Blocked(pid=SHELL, tid=SHELL, state="S", syscall="wait4", ran_at=NOW - 590),
            Blocked(
                pid=SLEEPER, tid=SLEEPER, state="S", syscall="clock_nanosleep", ran_at=NOW - 300, wakes_at=NOW + DAY_S
            ),
        ),
        unknowns=(*job.unknowns, Unknown(table="stacks", pid=SHELL, reason=NOT_PYTHON)),
    )  # fmt: skip


def stuck_loader(now: float, since: float) -> Snapshot:
    """One look at that job: whoever waits for batches or for work wakes every 5 s and waits again."""
    polled = dict(zip((LOADER, *LOADER_WORKERS), (RESULTS, *INDICES), strict=True))
    del polled[4121]
    turns = round(now - since) // 5
    return Snapshot(
        taken_at=now,
        root_pid=LOADER,
        root_start_time=NOW - 600,
        cpu_count=8,
        processes=(
            process(LOADER, ppid=4000, rss=1300 * MIB, environment={"MASTER_PORT": "29500"}),
            process(TRACKER, rss=10 * MIB, cmdline=TRACKER_COMMAND),
            *(process(pid, "pt_data_worker") for pid in LOADER_WORKERS),
        ),
        threads=(
            *(Thread(pid=pid, tid=pid, name="python", slices=20 + turns, run_ns=10**9 + turns * 10**5) for pid in polled),
            *(Thread(pid=pid, tid=tid, name="python", slices=20, run_ns=10**9) for pid, tid in STILL),
        ),
        stacks=loader_stacks(now, since),
        blocked=(
            *(
                Blocked(pid=pid, tid=pid, state="S", syscall="poll", ran_at=now - 3.2, timeout_s=5.0, waits_on=(name,))
                for pid, name in polled.items()
            ),
            Blocked(pid=4121, tid=4121, state="S", syscall="clock_nanosleep", ran_at=since, wakes_at=since + DAY_S),
            Blocked(pid=4121, tid=4130, state="S", syscall="futex", ran_at=since - 5),
            Blocked(pid=TRACKER, tid=TRACKER, state="S", syscall="read", ran_at=NOW - 545, waits_on=("pipe:905",)),
        ),
        objects=tuple(KernelObject(id=name, kind="pipe", fill=0, capacity=65536) for name in polled.values()),
        handles=(
            Handle(pid=LOADER, object=RESULTS, fd=7, writes=False),
            *(Handle(pid=pid, object=RESULTS, fd=9, reads=False) for pid in LOADER_WORKERS),
            *(Handle(pid=LOADER, object=name, fd=10 + n, reads=False) for n, name in enumerate(INDICES)),
            *(Handle(pid=pid, object=name, fd=10, writes=False) for pid, name in zip(LOADER_WORKERS, INDICES, strict=True)),
        ),
        unknowns=(Unknown(table="stacks", pid=TRACKER, reason="py-spy: Failed to get stack traces"),),
    )  # fmt: skip


def loader_stacks(now: float, since: float) -> tuple[Stack, ...]:
    """Of its threads; what stands still was read once, soon after that began."""
    selector = frame("select", f"{LIBRARY}/selectors.py", 415)
    get = frame("get", f"{LIBRARY}/multiprocessing/queues.py", 113)
    return (
        stack(
            LOADER,
            selector,
            get,
            frame("_try_get_data", f"{TORCH}/dataloader.py", 1131),
            frame("_next_data", f"{TORCH}/dataloader.py", 1328, worker_id="1"),
            frame("__next__", f"{TORCH}/dataloader.py", 630),
            frame("train", "/home/ada/cats/train.py", 41),
            frame("<module>", "/home/ada/cats/train.py", 60),
            at=now - 1,
        ),
        stack(4121, frame("download", line=88), frame("__getitem__", line=71), WORKER_LOOP, at=since + 3),
        stack(
            4121, frame("wait", f"{LIBRARY}/threading.py", 327), frame("watch", line=12),
            frame("run", f"{LIBRARY}/threading.py", 975), tid=4130, thread="watchdog", at=since + 3,
        ),
        *(stack(pid, selector, get, WORKER_LOOP, at=now - 1) for pid in LOADER_WORKERS if pid != 4121),
    )  # fmt: skip


def ended(*, now: float = NOW) -> Observation:
    """One worker failed, then the program, and no process is left."""
    last = {4100: ("main", 5, now - 2), 4120: ("process w", 0, now - 9), 4121: ("process w", 3, now - 6)}
    rows = {
        pid: process(pid, ppid=4100 if pid > 4100 else 1, exit_code=code << 8) for pid, (_, code, _) in last.items()
    }
    snapshot = Snapshot(
        taken_at=now,
        root_pid=4100,
        root_start_time=NOW - 600,
        exits=tuple(
            Exit(pid=pid, start_time=row.start_time, seen_at=last[pid][2], process=row) for pid, row in rows.items()
        ),
    )
    views = tuple(
        view(
            pid,
            role,
            parent=4100 if pid > 4100 else None,
            mood="dead",
            does=f"ended with exit status {code}",
        )
        for pid, (role, code, _) in last.items()
    )
    died = sorted(last.items(), key=lambda item: item[1][2])
    events = tuple(
        Event(
            at=at, kind="died", summary=f"{role} (pid {pid}) ended with exit status {code}", pids=(pid,), bad=code > 0
        )
        for pid, (role, code, at) in died
    )
    diagnosis = Diagnosis(verdict=Verdict.UNKNOWN, because="the process has ended", processes=views)
    return msgspec.structs.replace(observe(snapshot, diagnosis), events=events)


def healthy(*, now: float = NOW, cpu: float = 97.0, gpus: bool = True) -> Observation:
    """Two ranks under a launcher, on two GPUs."""
    ranks = (4201, 4202)
    devices = tuple(Gpu(uuid=f"GPU-{n}", index=n, name="H100") for n in range(2))
    snapshot = Snapshot(
        taken_at=now,
        root_pid=4200,
        root_start_time=NOW - 900,
        processes=(
            process(4200, "torchrun", ppid=1),
            *(process(pid, ppid=4200, state="R", rss=4 << 30) for pid in ranks),
        ),
        gpus=devices if gpus else (),
        gpu_processes=(
            GpuProcess(pid=4201, gpu_uuid="GPU-0", memory_bytes=38 << 30, sm_percent=97.0),
            GpuProcess(pid=4202, gpu_uuid="GPU-1"),
        ),
    )
    views = (
        view(4200, "launcher", mood="idle", does="waits for its ranks"),
        *(
            view(
                pid,
                f"rank {n}",
                rank=n,
                world_size=2,
                parent=4200,
                cpu_percent=cpu,
                does="runs",
                mood="working",
            )
            for n, pid in enumerate(ranks)
        ),
    )
    return observe(
        snapshot, Diagnosis(verdict=Verdict.HEALTHY, since=NOW - 60, because="every rank moves", processes=views)
    )


def many(count: int, *, now: float = NOW, busy: int = 0) -> Observation:
    """A large job: `count` processes, of which the first `busy` use another share of CPU at each moment."""
    pids = range(5000, 5000 + count)
    rows = tuple(process(pid, ppid=5000 if pid > 5000 else 1) for pid in pids)
    views = tuple(
        view(
            pid,
            f"dataloader worker {pid - 5000}" if pid > 5000 else "main",
            parent=5000 if pid > 5000 else None,
            cpu_percent=(now * 7) % 90 if pid - 5000 < busy else 0.0,
            does="waits for work",
            mood="idle",
            still_since=NOW - 3000,
        )
        for pid in pids
    )
    snapshot = Snapshot(taken_at=now, root_pid=5000, root_start_time=NOW - 900, processes=rows)
    return observe(snapshot, Diagnosis(verdict=Verdict.HEALTHY, since=NOW - 60, because="fine", processes=views))
