"""Jobs that share queues and memory: a stuck DataLoader, a consumer that keeps what it gets, a queue that is full."""

from __future__ import annotations

import msgspec

from mpmon.diagnosis.findings import (
    Diagnosis,
    Event,
    Observation,
    Remark,
    TrendPoint,
    Verdict,
)
from mpmon.diagnosis.remarks import ipc_leak_by_consumer
from mpmon.model import (
    Blocked,
    ExportRecord,
    Handle,
    ImportRecord,
    KernelObject,
    KnownChild,
    Limits,
    QueueRecord,
    QueueState,
    SemaphoreUse,
    SharedFile,
    SharedMemory,
    SharedUse,
    ShimProcess,
    Snapshot,
    Thread,
)
from tests.tui.fakes import (
    DAY_S,
    INDICES,
    LIBRARY,
    LOADER,
    LOADER_WORKERS,
    MIB,
    NOW,
    RESULTS,
    diagnosed,
    frame,
    hung,
    process,
    stack,
)
from tests.tui.gpu_fakes import GIB, gpu, gpu_process, job, rank_pid

MAIN, WORKERS = LOADER, LOADER_WORKERS

SHM = 64 * MIB


def semaphores(number: int) -> dict[str, str]:
    """The three semaphores of a queue, made in a row."""
    return {part: f"semaphore:00:1b:{number + at}:0" for at, part in enumerate(("read_lock", "write_lock", "room"))}


def queue(name: str, *, items: int | None, unread: int | None, **more: object) -> QueueState:
    """A queue as it was found in its maker's memory."""
    number = int(name.partition(":")[2])
    row = QueueState(
        object=name, pid=MAIN, items=items, unread_bytes=unread, read_locked=False, write_locked=False,
        **semaphores(10 * number),
    )  # fmt: skip
    return msgspec.structs.replace(row, **more)


def tensors(pid: int, count: int, size: int) -> list[SharedFile]:
    """Storages that one process made."""
    return [
        SharedFile(
            id=f"file:00:1b:{pid}{number:03}", kind="storage", path=f"/dev/shm/torch_{pid}_1_{number}", deleted=True,
            size_bytes=size, creator=pid, creator_alive=True,
        )
        for number in range(count)
    ]  # fmt: skip


def limits(pid: int, **more: int) -> Limits:
    return msgspec.structs.replace(
        Limits(pid=pid, descriptors=38, descriptors_limit=1024, maps=412, maps_limit=65530), **more
    )


# A DataLoader


def loader_queues(unread_by_stuck: int = 2) -> tuple[QueueState, ...]:
    """Nothing in any of them but in that of worker 1."""
    results = queue(RESULTS, items=0, unread=0, putters=WORKERS, getters=(MAIN,), read_locked=True)
    return (
        results,
        *(
            queue(
                name, items=unread_by_stuck if pid == 4121 else 0, unread=30 * unread_by_stuck if pid == 4121 else 0,
                putters=(MAIN,), getters=(pid,), read_locked=pid != 4121,
            )
            for name, pid in zip(INDICES, WORKERS, strict=True)
        ),
    )  # fmt: skip


def loader(*, now: float = NOW) -> Observation:
    """Worker 1 sleeps in a download, and so the batches that it was asked for are not read."""
    before = hung(now=now)
    made = [file for pid in WORKERS for file in tensors(pid, 3, 4 * MIB)]
    snapshot = msgspec.structs.replace(
        before.snapshot,
        queues=loader_queues(),
        shared_files=tuple(made),
        shared_uses=tuple(SharedUse(pid=MAIN, object=file.id, maps=1, descriptors=1) for file in made),
        shared_memory=(SharedMemory(device=27, pids=(MAIN, *WORKERS), size_bytes=SHM, used_bytes=49 * MIB),),
        limits=(
            limits(MAIN, storages=12, storage_bytes=48 * MIB, storage_descriptors=12),
            *(limits(pid) for pid in WORKERS),
        ),
    )
    return msgspec.structs.replace(before, snapshot=snapshot, events=events())


def events() -> tuple[Event, ...]:
    """How it came to that."""
    return (
        Event(at=NOW - 300, kind="watch", summary="mpmon watches pid 4100: 7 processes", pids=(4100,)),
        Event(at=NOW - 298, kind="verdict", summary="healthy: main is running in train() at train.py:41"),
        Event(at=NOW - 290, kind="probe-failed", summary="stacks: no answer of py-spy within 5 s"),
        Event(
            at=NOW - 270, kind="died", summary="dataloader worker 1 (pid 4119) was killed by SIGKILL (9)", pids=(4119,),
            bad=True,
        ),
        Event(at=NOW - 268, kind="born", summary="dataloader worker 1 started again (pid 4121)", pids=(4121,)),
        Event(at=NOW - 247, kind="hang-began", summary="the job hangs, for 5 s now", bad=True),
        Event(
            at=NOW - 247, kind="finding-began", pids=(4121,), bad=True,
            summary="worker-stuck (possible): dataloader worker 1 has been asleep for 5 s in download() at dataset.py:88, "
            "24 h to go; main waits for batch from dataloader worker 1",
        ),
        Event(at=NOW - 241, kind="finding-changed", summary="worker-stuck is now likely", pids=(4121,), bad=True),
        Event(at=NOW - 100, kind="probe-works", summary="stacks: works again"),
    )  # fmt: skip


# CUDA memory

PRODUCER, CONSUMER = rank_pid(0), rank_pid(1)
WEIGHTS = "pipe:1489699"
REFCOUNTER = f"torch_{PRODUCER}_77_0"
KEPT, UNDER_WAY, RELEASED = 40, 2, 3
BLOCK = 64 * MIB


def leak(*, now: float = NOW) -> Observation:
    """Rank 1 keeps what rank 0 sends, a block every 5 s; both have the shim."""
    sent = [_export(slot, now - 5.0 * (KEPT + UNDER_WAY - slot)) for slot in range(KEPT + UNDER_WAY)]
    sent += [
        msgspec.structs.replace(_export(KEPT + UNDER_WAY + slot, now - 400.0), dropped_at=now - 390.0)
        for slot in range(RELEASED)
    ]
    sent[0] = msgspec.structs.replace(sent[0], dropped_at=now - 200.0)
    base = job(
        [gpu(0), gpu(1)], [gpu_process(0), gpu_process(1)], ranks=2, now=now,
        diagnosis=Diagnosis(
            verdict=Verdict.HEALTHY, since=NOW - 640, because="every rank moves", remarks=(_keeps_more(now),)
        ),
    )  # fmt: skip
    counted = tuple((slot, 1) for slot in range(KEPT + UNDER_WAY))
    snapshot = msgspec.structs.replace(
        base.snapshot,
        queues=(
            queue(
                WEIGHTS, items=UNDER_WAY, unread=712, capacity=16, pid=PRODUCER, putters=(PRODUCER,), getters=(CONSUMER,)
            ),
        ),
        queue_records=_records(now),
        exports=tuple(sent),
        imports=tuple(
            ImportRecord(pid=CONSUMER, file=REFCOUNTER, slot=slot, received_at=row.sent_at + 0.1, object=WEIGHTS)
            for slot, row in enumerate(sent[:KEPT])
        ),
        shims=tuple(ShimProcess(pid=pid, start_time=NOW - 600, alive=True) for pid in (PRODUCER, CONSUMER)),
        handles=(
            Handle(pid=PRODUCER, object=WEIGHTS, fd=20, reads=False),
            Handle(pid=CONSUMER, object=WEIGHTS, fd=12, writes=False),
        ),
        shared_files=(
            SharedFile(
                id="file:00:1b:512", kind="refcounter", path=f"/dev/shm/{REFCOUNTER}", size_bytes=80_064,
                creator=PRODUCER, creator_alive=True, mappings=1, slots=counted, live_slots=len(counted),
                released=tuple((KEPT + UNDER_WAY + slot, now - 60.0) for slot in range(RELEASED)),
            ),
        ),
        shared_uses=(SharedUse(pid=PRODUCER, object="file:00:1b:512", maps=1),),
        shared_memory=(SharedMemory(device=27, pids=(PRODUCER, CONSUMER), size_bytes=16 * GIB, used_bytes=1 * MIB),),
        limits=(limits(PRODUCER), limits(CONSUMER)),
    )  # fmt: skip
    watches = Event(at=NOW - 30, kind="watch", summary="mpmon watches pid 4300: 3 processes", pids=(4300,))
    keeps = Event(at=NOW - 1, kind="remark-began", summary=_keeps_more(now).summary, pids=(CONSUMER, PRODUCER))
    return msgspec.structs.replace(base, snapshot=snapshot, events=(watches, keeps))


def _export(slot: int, at: float) -> ExportRecord:
    return ExportRecord(
        pid=PRODUCER, file=REFCOUNTER, slot=slot, size_bytes=BLOCK, device=0, sent_at=at, object=WEIGHTS,
        site="train.py:16 in publish",
    )  # fmt: skip


def _records(now: float) -> tuple[QueueRecord, ...]:
    """The queue as both sides wrote it down: an item every 5 s."""
    count = KEPT + int(now - NOW) // 5
    return (
        QueueRecord(
            pid=PRODUCER, object=WEIGHTS, made_at="train.py:9 in main", capacity=16, puts=count + UNDER_WAY,
            sent=count + UNDER_WAY, sent_bytes=356 * count, lost=0, put_at=now - 5.0, put_site="train.py:16 in publish",
        ),
        QueueRecord(
            pid=CONSUMER, object=WEIGHTS, capacity=16, gets=count, received_bytes=356 * count, get_at=now - 5.0,
            get_site="train.py:31 in follow",
        ),
    )  # fmt: skip


def _keeps_more(now: float) -> Remark:
    return Remark(
        topic=ipc_leak_by_consumer.TOPIC,
        summary="rank 1 (pid 4302) holds 40 blocks 2.5 GiB of CUDA memory of rank 0 (pid 4301), "
        "a number that has grown for 3 min 30 s",
        pids=(CONSUMER, PRODUCER),
        since=now - 210.0,
        evidence=("through queue pipe:1489699, made at train.py:9 in main, sent at train.py:16 in publish",),
        advice=("Copy what you keep (.clone() or .cpu()), and del the received tensor before the next get().",),
    )


# A full queue

READER, WRITERS = 4140, (4141, 4142)
JOBS = "pipe:950"


def full(*, now: float = NOW) -> Observation:
    """Two processes put into a queue that its only reader does not empty any more; three items could not be sent."""
    found = diagnosed(full_queue(now + at, now - 252.0) for at in range(-30, 1, 5))
    return msgspec.structs.replace(found, watched_s=300.0, trend=_trend(now))


def full_queue(now: float, began: float) -> Snapshot:
    """One look at that job, in which nothing runs any more."""
    names = {READER: "uploader", **{pid: f"Producer-{pid - 4140}" for pid in WRITERS}}
    rows = (process(MAIN, ppid=4000), *(process(pid) for pid in names))
    room = semaphores(9500)["room"]
    puts = {READER: -56, **dict.fromkeys(WRITERS, 60)}
    join = (
        frame("poll", f"{LIBRARY}/multiprocessing/popen_fork.py", 27),
        frame("wait", f"{LIBRARY}/multiprocessing/popen_fork.py", 43),
        frame("join", f"{LIBRARY}/multiprocessing/process.py", 149),
        frame("main", "/home/ada/cats/job.py", 31),
    )
    put = frame("put", f"{LIBRARY}/multiprocessing/queues.py", 89), frame("produce", "/home/ada/cats/job.py", 40)
    return Snapshot(
        taken_at=now,
        root_pid=MAIN,
        root_start_time=NOW - 600,
        processes=rows,
        threads=tuple(Thread(pid=row.pid, tid=row.pid, name="python", slices=20, run_ns=10**9) for row in rows),
        stacks=(
            stack(MAIN, *join, at=began + 2),
            stack(READER, frame("upload", line=88), frame("run", line=12), at=began + 2),
            *(stack(pid, *put, at=began + 2) for pid in WRITERS),
        ),
        blocked=(
            Blocked(pid=MAIN, tid=MAIN, state="S", syscall="wait4", ran_at=NOW - 590, waits_on=(f"process:{READER}",)),
            Blocked(pid=READER, tid=READER, state="S", syscall="clock_nanosleep", ran_at=began, wakes_at=began + DAY_S),
            *(Blocked(pid=pid, tid=pid, state="S", syscall="futex", ran_at=began, waits_on=(room,)) for pid in WRITERS),
        ),
        objects=(
            KernelObject(id=JOBS, kind="pipe", fill=5213, capacity=65536),
            KernelObject(id=room, kind="semaphore", value=0),
        ),
        handles=(
            Handle(pid=READER, object=JOBS, fd=5, writes=False),
            *(Handle(pid=pid, object=JOBS, fd=6, reads=False) for pid in WRITERS),
            *(Handle(pid=pid, object=room) for pid in names),
        ),
        semaphores=tuple(SemaphoreUse(pid=pid, object=room, count=count, max_value=64) for pid, count in puts.items()),
        remembered=tuple(KnownChild(pid=MAIN, child=pid, name=name) for pid, name in names.items()),
        queues=(
            queue(JOBS, items=64, unread=5213, capacity=64, putters=WRITERS, getters=(READER,)),
            queue("pipe:951", items=0, unread=0, capacity=64, putters=(READER,), getters=(MAIN,)),
            queue("pipe:952", kind="SimpleQueue", items=None, unread=0, putters=(), getters=(), room=None,
                  reasons={"items": "a SimpleQueue does not count its items"}),
        ),
        queue_records=tuple(
            QueueRecord(
                pid=pid, object=JOBS, made_at="job.py:9 in main" if pid == WRITERS[0] else None, capacity=64, puts=120,
                sent=88, lost=pid - 4140, put_at=began, putting=True, put_site="job.py:40 in produce",
            )
            for pid in WRITERS
        ),
        shims=tuple(ShimProcess(pid=pid, start_time=NOW - 600, alive=True) for pid in WRITERS),
        shared_memory=(SharedMemory(device=27, pids=(MAIN,), size_bytes=SHM, used_bytes=SHM - MIB),),
        shared_files=(
            *tensors(WRITERS[0], 2, 30 * MIB),
            SharedFile(
                id="file:00:1b:7", kind="storage", path="/dev/shm/torch_977_5_0", size_bytes=3 * MIB, creator=977,
                creator_alive=False,
            ),
        ),
        limits=tuple(limits(row.pid) for row in rows),
    )  # fmt: skip


def _trend(now: float) -> tuple[TrendPoint, ...]:
    """The writers worked until the queue was full, the reader until it fell asleep."""
    moments = (now - seconds for seconds in range(300, -1, -1))
    return tuple(TrendPoint(at, (), (), {pid: 60.0 for pid in (*WRITERS, READER) if at < now - 252}) for at in moments)
