"""Short builders of observations, and a watch that plays them."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING

import msgspec

from mpmon.diagnosis.findings import (
    Certainty,
    Diagnosis,
    Event,
    Finding,
    Link,
    Observation,
    Place,
    ProcessView,
    Suspect,
    Verdict,
    Waiter,
)
from mpmon.model import (
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
    Unknown,
)
from mpmon.reel import Reel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpmon.errors import MpmonError

NOW = 1767225852.0
"""The moment of the snapshots; nothing here reads a clock."""

MIB = 1024 * 1024
USER_FILE = "/home/ada/cats/dataset.py"
TORCH = "/usr/lib/python3/dist-packages/torch/utils/data"


class FakeWatch:
    """Plays what it is fed and notes what it was asked."""

    def __init__(self, *observations: Observation, live: bool = True, title: str = "pid 4100") -> None:
        self.live = live
        self.title = title
        self.speed = 1.0
        self.length: int | None = None
        self.reel = Reel()
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
            self.reel.add(item)
            yield item

    def look_now(self) -> None:
        self.asked.append("look")

    def attend(self, pid: int | None) -> None:
        self.asked.append(("attend", pid))

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
    return Process(
        pid=pid,
        start_time=NOW - 600,
        ppid=ppid,
        state=state,
        name=name,
        threads=5,
        cpu_s=12.5,
        rss_bytes=rss,
        cmdline=("/usr/bin/python3", "-u", "train.py", "--epochs", "3"),
        **more,  # pyright: ignore[reportArgumentType]
    )


def frame(function: str, file: str = USER_FILE, line: int = 1) -> Frame:
    return Frame(function=function, file=file, line=line)


def stack(pid: int, *frames: Frame, tid: int | None = None, thread: str = "MainThread") -> Stack:
    return Stack(pid=pid, tid=tid or pid, thread_name=thread, taken_at=NOW - 1, frames=frames)


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


def worker_stacks() -> tuple[Stack, ...]:
    idle = tuple(
        stack(pid, frame("wait", "/usr/lib/python3.11/selectors.py", 415), WORKER_LOOP) for pid in (4120, 4122, 4123)
    )
    return (
        stack(
            4100,
            frame("_try_get_data", f"{TORCH}/dataloader.py", 1131),
            frame("__next__", f"{TORCH}/dataloader.py", 630),
            frame("train", "/home/ada/cats/train.py", 41),
            frame("<module>", "/home/ada/cats/train.py", 60),
        ),
        stack(4121, frame("download", line=88), frame("__getitem__", line=71), WORKER_LOOP),
        stack(4121, frame("run", "/usr/lib/python3.11/threading.py", 975), tid=4130, thread="watchdog"),
        *idle,
    )


def hung(*, now: float = NOW, since: float = NOW - 252) -> Observation:
    """One DataLoader worker sleeps in the user's code, everybody waits for it."""
    workers = (4120, 4121, 4122, 4123)
    processes = (
        process(4100, ppid=4000, rss=1300 * MIB, environment={"MASTER_PORT": "29500", "RANK": "0"}),
        process(4110, "pt_tracker", rss=10 * MIB),
        *(process(pid, "pt_data_worker") for pid in workers),
    )
    snapshot = Snapshot(
        taken_at=now,
        root_pid=4100,
        root_start_time=NOW - 600,
        processes=processes,
        stacks=worker_stacks(),
        blocked=(
            Blocked(
                pid=4100, tid=4100, state="S", syscall="poll", ran_at=now - 3.2, timeout_s=5.0, waits_on=("pipe:900",)
            ),
            Blocked(pid=4121, tid=4121, state="S", syscall="clock_nanosleep", ran_at=since, wakes_at=since + 3600.0),
        ),
        objects=(KernelObject(id="pipe:900", kind="pipe", fill=0, capacity=65536),),
        handles=(
            Handle(pid=4100, object="pipe:900", fd=7, writes=False),
            *(Handle(pid=pid, object="pipe:900", fd=9, reads=False) for pid in workers),
        ),
        unknowns=(Unknown(table="stacks", pid=4110, reason="not a Python process mpmon can read"),),
    )
    return observe(snapshot, hung_diagnosis(since))


def hung_diagnosis(since: float) -> Diagnosis:
    place = Place(function="download", file=USER_FILE, line=88)
    finding = Finding(
        cause="worker-stuck",
        certainty=Certainty.PROVED,
        summary="Dataloader worker 1 sleeps in download() at dataset.py:88 and the training loop waits for its batch.",
        suspects=(Suspect(pid=4121, role="dataloader worker 1", tid=4121, frame=place),),
        waiters=(Waiter(pid=4100, role="main", waits_for="batch from dataloader worker 1"),),
        chain=(
            Link(pid=4100, role="main", does="next batch"),
            Link(pid=4121, role="dataloader worker 1", does="time.sleep", place=place),
        ),
        evidence=(
            "main (4100) waits in poll on pipe:900, which is empty",
            "worker 1 (4121) has not run for 4 min 12 s",
            "workers 0, 2 and 3 wait for work",
        ),
        advice=("Look at download() in dataset.py: it has no timeout.", "num_workers=0 shows the hang directly."),
        since=since,
    )
    other = Finding(
        cause="slow-storage", certainty=Certainty.POSSIBLE, summary="Reads are slow.", suspects=(finding.suspects[0],)
    )
    idle = tuple(
        ProcessView(
            pid=pid, role=f"dataloader worker {n}", parent=4100, cpu_percent=0, does="waits for work", mood="idle"
        )
        for n, pid in ((0, 4120), (2, 4122), (3, 4123))
    )
    views = (
        ProcessView(
            pid=4100, role="main", cpu_percent=0.4, does="waits for batch", mood="waiting", still_since=NOW - 3
        ),
        ProcessView(pid=4110, role="resource tracker", parent=4100, mood="idle", does="idle"),
        ProcessView(
            pid=4121,
            role="dataloader worker 1",
            parent=4100,
            cpu_percent=0,
            does="asleep in download()",
            mood="suspect",
            still_since=since,
        ),
        *idle,
    )
    return Diagnosis(
        verdict=Verdict.HUNG, since=since, because="one worker is stuck", findings=(finding, other), processes=views
    )


def ended(*, now: float = NOW) -> Observation:
    """One worker failed, then the program, and nobody is left."""
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
        ProcessView(
            pid=pid,
            role=role,
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
        ProcessView(pid=4200, role="launcher", mood="idle", does="waits for its ranks"),
        *(
            ProcessView(
                pid=pid,
                role=f"rank {n}",
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
        ProcessView(
            pid=pid,
            role=f"dataloader worker {pid - 5000}" if pid > 5000 else "main",
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
