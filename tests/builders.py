"""Short constructors of facts, so that a test reads like an example.

    trainer = process(4100, name="python")
    worker = process(4121, parent=4100, name="pt_data_worker")
    now = snapshot(trainer, worker, stack("main", "torch/utils/data/dataloader.py:1275 _try_get_data", "train.py:7 main"))

Moments are seconds after `START`; nothing here reads a clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from mpmon.diagnosis import History, diagnose
from mpmon.diagnosis.findings import Diagnosis, ProcessView
from mpmon.model import (
    Blocked,
    Cgroup,
    Collective,
    Exit,
    ExportRecord,
    Figures,
    FlightRecord,
    Frame,
    Gpu,
    GpuProcess,
    Handle,
    ImportRecord,
    JoinTarget,
    KernelObject,
    KnownChild,
    Limits,
    LockUse,
    MigInstance,
    Mount,
    NativeStack,
    Process,
    QueueRecord,
    QueueState,
    Row,
    SemaphoreUse,
    SharedFile,
    SharedMemory,
    SharedUse,
    ShimProcess,
    Snapshot,
    Spot,
    Stack,
    Task,
    Thread,
    Unknown,
)

START = 1_767_225_600.0
"""The moment the watch begins, seconds since the epoch."""

ROOT = 4100
"""The pid of the job's root."""

LIBRARY = "/usr/lib/python3.11"
PACKAGES = f"{LIBRARY}/site-packages"
HOME = "/home/ada/cats"
"""Where the user's own files are."""


def process(pid: int = ROOT, *, parent: int = 1, name: str = "python", state: str = "S", **more: object) -> Process:
    """A process; `parent` is the kernel's."""
    row = Process(
        pid=pid, start_time=START - 100 + pid / 1000, ppid=parent, state=state, name=name, threads=1, cpu_s=1.0,
        rss_bytes=1 << 20, pgid=ROOT, sid=ROOT, cmdline=("python", "train.py"), environment={}, uid=1000,
    )  # fmt: skip
    return msgspec.structs.replace(row, **more)


def view(pid: int, role: str, **more: object) -> ProcessView:
    """What the diagnosis says of a process: its kind is its role without the number, or without the name of a child."""
    kind = re.sub(r"^((?:sub)?process) .*|[ \d?]+$", r"\1", role)
    return ProcessView(pid=pid, role=role, kind=kind, **more)


def thread(
    pid: int = ROOT, tid: int | None = None, *, slices: int = 10, run_s: float = 1.0, name: str = "python"
) -> Thread:
    """The counters of a thread; `slices` is how often it ran."""
    return Thread(pid=pid, tid=pid if tid is None else tid, name=name, run_ns=int(run_s * 1e9), slices=slices)


def frame(text: str, *, arguments: int | None = None, others: int | None = None, **known: str) -> Frame:
    """`job.py:88 __getitem__`: a file, a line and a function; see `path` for which file is meant."""
    place, _, function = text.partition(" ")
    file, _, line = place.rpartition(":")
    return Frame(
        function=function or "<module>", file=path(file), line=int(line), arguments_digest=arguments,
        locals_digest=others, known=known or None,
    )  # fmt: skip


def path(file: str) -> str:
    """A file of torch or of another package lies in site-packages, one of the standard library beside it."""
    if file.startswith(("/", "<")):
        return file
    if file.startswith(("torch/", "site-packages/")):
        return f"{PACKAGES}/{file.removeprefix('site-packages/')}"
    if file.startswith(("multiprocessing/", "concurrent/", "asyncio/", "lib/")):
        return f"{LIBRARY}/{file.removeprefix('lib/')}"
    return f"{HOME}/{file}"


def stack(
    name: str,
    *frames: str | Frame,
    pid: int = ROOT,
    tid: int | None = None,
    at: float = 0.0,
    exact: bool = True,
    arguments: int | None = None,
) -> Stack:
    """The frames of a thread, innermost first; `main` is the main thread.

    `arguments` is the digest of the arguments of every frame that is given as text.
    """
    return Stack(
        pid=pid, tid=pid if tid is None else tid, thread_name="MainThread" if name == "main" else name,
        taken_at=START + at, exact=exact,
        frames=tuple(frame(row, arguments=arguments) if isinstance(row, str) else row for row in frames),
    )  # fmt: skip


def blocked(
    syscall: str | None = "poll",
    *waits_on: str,
    pid: int = ROOT,
    tid: int | None = None,
    state: str = "S",
    writes: bool = False,
    **more: object,
) -> Blocked:
    """What the kernel says a thread is in; `waits_on` are names of objects: `pipe:7`."""
    row = Blocked(
        pid=pid, tid=pid if tid is None else tid, state=state, syscall=syscall, waits_on=waits_on, writes=writes
    )
    return msgspec.structs.replace(row, **more)


def running(pid: int = ROOT, tid: int | None = None) -> Blocked:
    """A thread on a CPU."""
    return blocked("running", pid=pid, tid=tid, state="R")


def holds(pid: int, name: str, *, reads: bool = True, writes: bool = True, fd: int | None = None) -> Handle:
    """A process has an object open."""
    return Handle(pid=pid, object=name, reads=reads, writes=writes, fd=fd)


def kernel_object(name: str, **more: object) -> KernelObject:
    """`pipe:7`, `semaphore:…`: its kind is the first word of its name."""
    return msgspec.structs.replace(KernelObject(id=name, kind=name.partition(":")[0]), **more)


def lock(word: int, function: str | None, *, tid: int, pid: int = ROOT, kind: str = "Lock", **more: object) -> LockUse:
    """A thread holds a lock of its process, by a `with` block in that function or by the lock's own word."""
    row = LockUse(pid=pid, tid=tid, object=f"futex:{pid}:{word:#x}", kind=kind, holds=True, function=function, depth=0)
    return msgspec.structs.replace(row, **more)


def wants(word: int, function: str, *, tid: int, pid: int = ROOT, **more: object) -> LockUse:
    """A thread waits for a lock of its process."""
    return lock(word, function, tid=tid, pid=pid, holds=False, **more)


MIB = 1 << 20
"""Bytes."""


def gpu(index: int = 0, *, at: float = 0.0, **more: object) -> Gpu:
    """An H200 at rest that was read at that moment; its UUID is `GPU-0`."""
    row = Gpu(
        uuid=f"GPU-{index}", index=index, name="NVIDIA H200", read_at=START + at, memory_total_bytes=143_771 * MIB,
        memory_used_bytes=0, utilization_percent=0.0, memory_utilization_percent=0.0, power_watts=75.0,
        power_limit_watts=700.0, sm_clock_mhz=1980, sm_clock_max_mhz=1980, clock_event_reasons=(), mig=False,
    )  # fmt: skip
    return msgspec.structs.replace(row, **more)


def on_gpu(pid: int, index: int = 0, *, mib: float | None = 500, **more: object) -> GpuProcess:
    """A process has a context with so much memory on that device."""
    row = GpuProcess(
        pid=pid, gpu_uuid=f"GPU-{index}", kinds=("compute",), memory_bytes=None if mib is None else int(mib * MIB)
    )
    return msgspec.structs.replace(row, **more)


_TABLES: dict[type[Row], str] = {
    Process: "processes",
    Thread: "threads",
    Blocked: "blocked",
    Spot: "spots",
    Stack: "stacks",
    NativeStack: "native_stacks",
    Task: "tasks",
    Handle: "handles",
    KernelObject: "objects",
    Unknown: "unknowns",
    Exit: "exits",
    Collective: "collectives",
    FlightRecord: "flight_records",
    Cgroup: "cgroups",
    Figures: "figures",
    LockUse: "locks",
    JoinTarget: "awaited",
    KnownChild: "remembered",
    SemaphoreUse: "semaphores",
    Gpu: "gpus",
    GpuProcess: "gpu_processes",
    MigInstance: "mig_instances",
    Mount: "mounts",
    ExportRecord: "exports",
    ImportRecord: "imports",
    Limits: "limits",
    QueueRecord: "queue_records",
    QueueState: "queues",
    SharedFile: "shared_files",
    SharedMemory: "shared_memory",
    SharedUse: "shared_uses",
    ShimProcess: "shims",
}


def snapshot(*rows: Row, at: float = 0.0, root: int = ROOT) -> Snapshot:
    """All these rows, each in its table; a process without threads gets one that does not run."""
    tables: dict[str, list[Row]] = {name: [] for name in _TABLES.values()}
    for row in rows:
        tables[_TABLES[type(row)]].append(row)
    counted = {row.pid for row in rows if isinstance(row, Thread)}
    idle = [thread(row.pid) for row in rows if isinstance(row, Process) and row.pid not in counted and not row.ended]
    tables["threads"] += idle
    start = next((row.start_time for row in rows if isinstance(row, Process) and row.pid == root), START)
    return Snapshot(
        taken_at=START + at,
        root_pid=root,
        root_start_time=start,
        **{name: tuple(table) for name, table in tables.items()},
    )


def after(before: Snapshot, seconds: float, *, ran: Iterable[int] = ()) -> Snapshot:
    """The same facts some seconds later; the main threads of the pids in `ran` have run meanwhile."""
    tids = set(ran)
    threads = tuple(
        msgspec.structs.replace(row, slices=row.slices + 1, run_ns=row.run_ns + 1_000_000) if row.tid in tids else row
        for row in before.threads
    )
    return msgspec.structs.replace(
        before, taken_at=before.taken_at + seconds, threads=threads if tids else before.threads
    )


def history(*snapshots: Snapshot) -> History:
    """What is remembered after having seen all these."""
    seen = History()
    for each in snapshots:
        seen = seen.add(each)
    return seen


def watched(first: Snapshot, *, seconds: int = 12) -> Diagnosis:
    """What mpmon says of a job in which nothing happens for so long."""
    rounds = [first]
    for _ in range(seconds):
        rounds.append(after(rounds[-1], 1.0))
    return diagnose(history(*rounds))


def diagnosed(rounds: Sequence[Snapshot]) -> Diagnosis:
    """What mpmon says after these rounds."""
    return diagnose(history(*rounds))
