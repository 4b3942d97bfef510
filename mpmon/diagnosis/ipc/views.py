"""Queues, CUDA memory sent to other processes, and shared memory, as views and the report show them."""

from __future__ import annotations

from mpmon.model import Pid, Row


class LockView(Row, frozen=True, kw_only=True, omit_defaults=False):
    """One of the two locks of a queue."""

    id: str
    taken: bool | None = None
    holders: tuple[Pid, ...] = ()
    """Pids, as far as known."""
    orphaned: bool = False
    """The lock is taken, but by the acquire counts no living process holds it: its holder ended without releasing it."""


class QueueView(Row, frozen=True, kw_only=True, omit_defaults=False):
    """One queue of multiprocessing."""

    id: str
    """`pipe:INODE`."""
    name: str | None = None
    """`made at job.py:9 in main`, `loader index queue 2`; `None` where nothing is known."""
    kind: str | None = None
    """`Queue`, `JoinableQueue`, `SimpleQueue`."""
    depth: int | None = None
    """Items put and not taken yet."""
    capacity: int | None = None
    """`None` without a bound."""
    bytes_unread: int | None = None
    producers: tuple[Pid, ...] = ()
    """Processes that were observed to put; if none was, all with that end of the pipe."""
    consumers: tuple[Pid, ...] = ()
    blocked_put: tuple[Pid, ...] = ()
    """Processes with a thread that waits in `put`, or whose feeder thread waits for room in the pipe."""
    blocked_get: tuple[Pid, ...] = ()
    read_lock: LockView | None = None
    write_lock: LockView | None = None
    puts: int | None = None
    """Counted by the shim in all processes that have it."""
    gets: int | None = None
    lost: int | None = None
    """Items whose `put` returned but that could not be sent."""
    put_site: str | None = None
    """Where the last put was called."""
    get_site: str | None = None
    reasons: dict[str, str]
    """Why a field is `None` or a guess."""


class ExportView(Row, frozen=True, kw_only=True, omit_defaults=False):
    """CUDA memory that one process has sent to another and that is not released yet."""

    producer: int
    slot: int | None = None
    """`None` for several slots without further data."""
    file: str
    gpu_uuid: str | None = None
    size_bytes: int | None = None
    refcount: int | None = None
    state: str
    """`in-flight`, `held`, `held-by-dead`, `released-not-collected`, `rebuilt-twice`, `unknown`."""
    consumers: tuple[Pid, ...] = ()
    queue: str | None = None
    """`pipe:INODE`."""
    site: str | None = None
    """Where it was sent."""
    age_s: float | None = None
    exports: int = 1
    """How many transfers this row represents."""
    limbo: bool = False
    """The producer no longer uses it: the memory stays allocated only because it is not released."""
    synced: bool = False
    """The transfer synchronized the whole stream, because no events were left."""
    sent_at: float | None = None
    released_s: float | None = None
    """For how long its count has been 0."""
    reasons: dict[str, str]


class PairView(Row, frozen=True, kw_only=True, omit_defaults=False):
    """All CUDA memory of one process that another one holds."""

    producer: int
    consumer: int
    blocks: int
    bytes: int
    oldest_age_s: float | None = None
    queue: str | None = None
    """The queue that most of it came through."""
    site: str | None = None
    """The line that sent most of it."""


class SharerView(Row, frozen=True, kw_only=True, omit_defaults=False):
    """What sharing costs in one process."""

    pid: Pid
    bytes: int = 0
    """Storages it has mapped."""
    storages: int = 0
    created_bytes: int = 0
    """Bytes of existing storages that the process created, whichever process has them."""
    created: int = 0
    descriptors: int | None = None
    descriptors_limit: int | None = None
    maps: int | None = None
    maps_limit: int | None = None


class LeftoverView(Row, frozen=True, kw_only=True, omit_defaults=False):
    """A file that no process has mapped and whose creator is dead."""

    path: str
    size_bytes: int
    creator: int | None = None


class SystemView(Row, frozen=True, kw_only=True, omit_defaults=False):
    """A /dev/shm other than that of the job's root."""

    device: int
    size_bytes: int
    used_bytes: int
    pids: tuple[Pid, ...] = ()


class MemoryView(Row, frozen=True, kw_only=True, omit_defaults=False):
    """/dev/shm as the job's root sees it, and who uses it."""

    device: int
    size_bytes: int
    used_bytes: int
    by_process: tuple[SharerView, ...] = ()
    """The largest first."""
    in_transit: int = 0
    """Storages that no process has mapped and whose creator is alive: sent, and not received yet."""
    in_transit_bytes: int = 0
    orphans: tuple[LeftoverView, ...] = ()
    others: tuple[SystemView, ...] = ()
    """Other /dev/shm file systems that processes of the job see."""
