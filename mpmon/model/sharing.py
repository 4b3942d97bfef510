"""What goes from process to process: shared memory of torch, queues, exports and imports of CUDA memory."""

from __future__ import annotations

import msgspec

from mpmon.model.columns import AnyMoment, DeviceNumber, Moment, Name, Pid, Row


class SharedFile(Row, frozen=True, kw_only=True):
    """A file of torch in shared memory: a storage that processes share, or reference counts of CUDA memory.

    torch's aten/src/ATen/MapAllocator.cpp and torch/csrc/CudaIPCTypes.cpp.
    """

    id: Name
    """`file:DEV:INODE`."""
    kind: str
    """`storage`, or `refcounter`: 64 bytes and 10000 counts of 8 bytes."""
    path: str
    deleted: bool = False
    """It no longer has a name: with the strategy `file_descriptor` from the start, otherwise it was removed."""
    size_bytes: int
    creator: Pid | None = None
    """The pid in its name: of its creator, in the pid namespace of its creator."""
    creator_alive: bool | None = None
    count: int | None = None
    """References of a storage of the strategy `file_system`, from its header. With `deleted`: its name was removed."""
    mappings: int | None = None
    """Of a refcounter: how many have it mapped, from its header."""
    slots: tuple[tuple[int, int], ...] = ()
    """Of a refcounter: slot and count of those that are not 0; at most the first 4096."""
    live_slots: int | None = None
    """How many of its counts are not 0."""
    released: tuple[tuple[int, Moment], ...] = ()
    """Slots whose count was seen to fall to 0, and when, the latest last; at most the last 256."""


class SharedUse(Row, frozen=True, kw_only=True):
    """How one process uses a `SharedFile`."""

    pid: Pid
    object: Name
    maps: int = 0
    descriptors: int = 0


class SharedMemory(Row, frozen=True, kw_only=True, omit_defaults=False):
    """The tmpfs at /dev/shm as processes of the job see it: statvfs(3) through /proc/PID/root."""

    device: DeviceNumber
    """Its device number: processes with another one cannot share files."""
    pids: tuple[Pid, ...] = ()
    """Processes of the job that see this one."""
    size_bytes: int
    used_bytes: int


class Limits(Row, frozen=True, kw_only=True, omit_defaults=False):
    """What sharing uses up in one process."""

    pid: Pid
    descriptors: int | None = None
    descriptors_limit: int | None = None
    """Soft limit of RLIMIT_NOFILE."""
    maps: int | None = None
    maps_limit: int | None = None
    """vm.max_map_count."""
    storages: int = 0
    """Files of torch in shared memory it has mapped: all of them, also where there are too many for rows of their own."""
    storage_bytes: int = 0
    """What it maps of them, in whole pages."""
    storage_descriptors: int = 0
    """Its descriptors of such files."""
    address_bytes: int | None = None
    """Address space that is mapped or reserved, in whole GiB."""
    address_limit: int | None = None
    """Of RLIMIT_AS, or of the processor."""
    torch: str | None = None
    """The version of the torch that it has loaded: `2.13.0+cu126`; `None` without one, or where that could not be read."""


class QueueState(Row, frozen=True, kw_only=True, omit_defaults=False):
    """A queue of multiprocessing: what the program's own objects say it is made of, and what the kernel says is in it.

    Lib/multiprocessing/queues.py: a pipe, a lock at each end of it, and a semaphore that counts the room left.
    """

    object: Name
    """`pipe:INODE`."""
    kind: str = "Queue"
    """`Queue`, `JoinableQueue`, or `SimpleQueue`, which counts nothing."""
    pid: Pid
    """The process of the job in whose memory it was found."""
    capacity: int | None = None
    """Items it can hold; `None` when it has no bound."""
    items: int | None = None
    """Items put and not taken yet, including those that still wait for the feeder thread."""
    unread_bytes: int | None = None
    """In its pipe."""
    read_lock: Name | None = None
    """Id of the lock that consumers take."""
    write_lock: Name | None = None
    room: Name | None = None
    """Id of the semaphore that counts the free space."""
    tasks: Name | None = None
    """Of a `JoinableQueue`, id of the semaphore that counts the items without `task_done()`."""
    joined: Name | None = None
    """Of a `JoinableQueue`, id of the semaphore on which `join()` sleeps."""
    read_locked: bool | None = None
    write_locked: bool | None = None
    putters: tuple[Pid, ...] = ()
    """Processes observed to have put more than they got; of ended ones, the youngest."""
    getters: tuple[Pid, ...] = ()
    """Processes observed to have got more than they put; of ended ones, the youngest."""
    taken: int | None = None
    """Items the getters have taken so far, minus what they have put; `None` until known for all of them."""
    ledgers: tuple[tuple[Pid, int], ...] = ()
    """Pid, and what it has put less what it has got, of those who were seen to do either; where they are too many
    only of those who get, or of nobody."""
    by_ended: int | None = None
    """Items put by ended processes, minus what they got; `None` until known for all users of the queue."""
    unfinished: int | None = None
    """Of a `JoinableQueue`, items that were put and for which `task_done()` was not called."""
    undone: tuple[tuple[Pid, int], ...] = ()
    """Pairs of a pid in `ledgers` and how many more items it has taken than it has called `task_done()` for."""
    reasons: dict[str, str] = msgspec.field(default_factory=dict)
    """Why a field is `None`."""


class ShimProcess(Row, frozen=True, kw_only=True):
    """A process with the queue shim, according to its file; it may be dead."""

    pid: Pid
    start_time: AnyMoment
    alive: bool
    dropped: int = 0
    """Number of records dropped for lack of room."""
    collected_at: Moment | None = None
    """When it last called `torch.cuda.ipc_collect()`."""
    received: int = 0
    """Transfers of CUDA memory it ever received, including repeated ones."""


class QueueRecord(Row, frozen=True, kw_only=True):
    """What one process did with one queue, as recorded by the shim. Moments are seconds since the epoch."""

    pid: Pid
    object: Name
    """`pipe:INODE` of the queue."""
    kind: str = "Queue"
    """`Queue`, `JoinableQueue`, `SimpleQueue`."""
    made_at: str | None = None
    """Where it was made, `job.py:9 in main`, when this process made it."""
    capacity: int | None = None
    """`None` when it has no bound."""
    puts: int = 0
    gets: int = 0
    sent: int = 0
    """Objects its feeder has sent."""
    sent_bytes: int = 0
    received_bytes: int = 0
    lost: int = 0
    """Objects the feeder could not send: put returned, but no process gets them."""
    lost_site: str | None = None
    """Where the last one of these was put."""
    descriptors: int = 0
    """Files that were sent along: only this process hands them out, so with its end they are lost."""
    put_at: Moment | None = None
    """When its last put began."""
    get_at: Moment | None = None
    putting: bool = False
    """That put has not returned."""
    getting: bool = False
    put_site: str | None = None
    """Where the last put was called, `job.py:16 in train_step`."""
    get_site: str | None = None


class ExportRecord(Row, frozen=True, kw_only=True):
    """One sent transfer of CUDA memory, as recorded by the producer's shim."""

    pid: Pid
    """The producer."""
    file: str
    """Name of the refcounter file."""
    slot: int
    size_bytes: int
    device: int
    """The producer's device number."""
    sent_at: Moment
    object: Name | None = None
    """`pipe:INODE` of the queue it went through; `None` when it went another way."""
    site: str | None = None
    dropped_at: Moment | None = None
    """When the producer was seen to have dropped it: with a count above 0 its memory is in limbo."""
    synced: bool = False
    """It was sent with a full synchronization of the stream, because no events were left."""


class ImportRecord(Row, frozen=True, kw_only=True):
    """One received transfer of CUDA memory, as recorded by the consumer's shim."""

    pid: Pid
    """The consumer."""
    file: str
    slot: int
    received_at: Moment
    again: bool = False
    """It had that storage already, and released the count at once."""
    object: Name | None = None
