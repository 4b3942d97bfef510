"""Queues, sendings of CUDA memory and shared files, for the tests of what is said of them."""

from __future__ import annotations

import msgspec

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.remarks import remarks
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import (
    ExportRecord,
    ImportRecord,
    Limits,
    Process,
    QueueRecord,
    QueueState,
    Row,
    SharedFile,
    SharedMemory,
    SharedUse,
    ShimProcess,
    Snapshot,
)
from tests.builders import ROOT, START, after, history, holds, process, snapshot

CONSUMER = 4200
FILE = f"torch_{ROOT}_1_0"
PIPE = "pipe:77"
READ, WRITE, ROOM = (f"semaphore:00:1b:{number}:0" for number in (1, 2, 3))
MIB = 1 << 20


def queue(**more: object) -> QueueState:
    """A queue with three items."""
    row = QueueState(
        object=PIPE, pid=ROOT, items=3, unread_bytes=18, read_lock=READ, write_lock=WRITE, room=ROOM,
        read_locked=False, write_locked=False,
    )  # fmt: skip
    return msgspec.structs.replace(row, **more)


def record(pid: int = ROOT, **more: object) -> QueueRecord:
    """What the shim of a process says of that queue."""
    return msgspec.structs.replace(QueueRecord(pid=pid, object=PIPE), **more)


def refcounter(*counts: tuple[int, int], **more: object) -> SharedFile:
    """The producer's file of counts: slot and count."""
    row = SharedFile(
        id="file:00:1b:9", kind="refcounter", path=f"/dev/shm/{FILE}", size_bytes=80_064, creator=ROOT,
        creator_alive=True, mappings=1, slots=counts, live_slots=len(counts),
    )  # fmt: skip
    return msgspec.structs.replace(row, **more)


def storage(number: int, size: int, *, creator: int = CONSUMER, **more: object) -> SharedFile:
    """A tensor on the CPU, with a name."""
    row = SharedFile(
        id=f"file:00:1b:{number}", kind="storage", path=f"/dev/shm/torch_{creator}_{number}_0", size_bytes=size,
        creator=creator, creator_alive=True,
    )  # fmt: skip
    return msgspec.structs.replace(row, **more)


def sent(slot: int = 0, *, at: float = 0.0, **more: object) -> ExportRecord:
    """16 MiB sent through the queue so many seconds after the start."""
    row = ExportRecord(
        pid=ROOT, file=FILE, slot=slot, size_bytes=16 * MIB, device=0, sent_at=START + at, object=PIPE,
        site="train.py:16 in step",
    )  # fmt: skip
    return msgspec.structs.replace(row, **more)


def got(slot: int = 0, *, at: float = 1.0, pid: int = CONSUMER, **more: object) -> ImportRecord:
    """The same received."""
    row = ImportRecord(pid=pid, file=FILE, slot=slot, received_at=START + at, object=PIPE)
    return msgspec.structs.replace(row, **more)


def mapped(pid: int = ROOT, name: str = "file:00:1b:9", **more: object) -> SharedUse:
    """A process has a file mapped."""
    return msgspec.structs.replace(SharedUse(pid=pid, object=name, maps=1), **more)


def shim(pid: int, *, alive: bool = True, **more: object) -> ShimProcess:
    """It writes down what it does."""
    return msgspec.structs.replace(ShimProcess(pid=pid, start_time=START - 100 + pid / 1000, alive=alive), **more)


def memory(used: int = 0, size: int = 64 * MIB, *, device: int = 27, pids: tuple[int, ...] = (ROOT, CONSUMER)) -> Row:
    return SharedMemory(device=device, pids=pids, size_bytes=size, used_bytes=used)


def limits(pid: int = ROOT, **more: object) -> Limits:
    row = Limits(pid=pid, descriptors=20, descriptors_limit=1024, maps=400, maps_limit=65_530)
    return msgspec.structs.replace(row, **more)


def producer(**more: object) -> Process:
    return process(exe="/usr/bin/python3", **more)


def consumer(**more: object) -> Process:
    return process(CONSUMER, parent=ROOT, exe="/usr/bin/python3", **more)


def pair(*rows: Row) -> tuple[Row, ...]:
    """A producer and a consumer with shims, a queue and a refcounter between them."""
    ends = (holds(ROOT, PIPE), holds(CONSUMER, PIPE))
    return (producer(), consumer(), shim(ROOT), shim(CONSUMER), *ends, mapped(), *rows)


def case_of(*rows: Row, at: float = 0.0) -> JobState:
    """One look at these, so many seconds after the start."""
    sample = snapshot(*rows, at=at)
    return JobState(history(sample), sample)


def watched_for(seconds: float, *rows: Row, at: float = 0.0) -> JobState:
    """The same facts for a while."""
    first = snapshot(*rows, at=at)
    last: Snapshot = after(first, seconds)
    return JobState(history(first, last), last)


def told(job: JobState, topic: str) -> list[Remark]:
    return [remark for remark in remarks(job) if remark.topic == topic]
