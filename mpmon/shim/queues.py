"""Hooks of the standard library's queues: `multiprocessing.queues`, which torch.multiprocessing, pools and executors use too.

What is recorded of a queue in this process: who calls `put` and `get` and since when, how often each came back, what was
pickled and received, what the feeder thread lost.
A queue is known in all processes by the inode of its pipe.

The hooks record before and after, and call the original in between with what they were given.  Recording never fails the
call: where it cannot be done it goes to `NOWHERE`.
Counting in a word of the file is safe between threads: CPython with a GIL hands it over only at calls and jumps, and there
is none between reading the word and storing it.
Hooks fetch `record.words` anew after the original has returned: it may have forked, and then they are the child's.
"""

from __future__ import annotations

import os
import sys
from _thread import get_ident
from functools import wraps
from threading import local
from time import monotonic_ns
from weakref import KeyedRef

from . import layout
from .layout import (
    DESCRIPTORS,
    GET,
    GETS,
    GETS_BEGUN,
    GETS_FAILED,
    LOST,
    MOMENT_BITS,
    PUT,
    PUTS,
    PUTS_BEGUN,
    PUTS_FAILED,
    RECEIVED_BYTES,
    SENT,
    SENT_BYTES,
    TEXT_BITS,
)
from .patches import replace
from .sites import SITES, frame_of, pass_over, site_of
from .writer import WRITER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, ModuleType
    from typing import Any

UNBOUNDED = 0x7FFFFFFF
"""`_maxsize` of a queue without a bound: SEM_VALUE_MAX of glibc's semaphore.h."""

MOST_WAITING = 1000
"""Objects that were put and not yet pickled, of which the line is remembered."""

_STANDARD_LIBRARY = os.path.join(os.path.dirname(os.__file__), "")
_PACKAGES = f"{os.sep}site-packages{os.sep}"


class Record:
    """What this process writes down of one queue, until the queue is gone."""

    __slots__ = ("_sites", "inode", "life", "number", "pickles", "site", "words")

    def __init__(self) -> None:
        self.life: KeyedRef[int, Any] | None = None
        """Tells when the queue is gone; its key is the queue's address."""
        self.inode = 0
        self.number = 0
        self.words = _scratch()
        """Those of the file; or of nowhere."""
        self.site = 0
        """Of the last call."""
        self.pickles = 0
        """Address of the object that is being pickled for this queue."""
        self._sites: dict[int, int] = {}

    def note_site(self, obj: object) -> None:
        """Remember where an object was put that waits to be pickled."""
        if len(self._sites) >= MOST_WAITING:
            self._sites.clear()
        self._sites[id(obj)] = self.site

    def site_of_pickled(self) -> int:
        """Where the object was put that is being pickled."""
        return self.site_of(self.pickles)

    def site_of(self, address: int) -> int:
        """Where an object was put; if that is not known, where the last one was."""
        return self._sites.get(address) or self.words[PUT] & TEXT_BITS


class Here(local):
    """What the present thread does."""

    gets_from: Record | None = None


def _scratch() -> memoryview:
    return memoryview(bytearray(layout.QUEUES.record_bytes)).cast("Q")


NOWHERE = Record()
"""Of queues for which there is no room, and where recording failed."""
RECORDS: dict[int, Record] = {}
"""By the address of the queue."""
SENDERS: dict[int, Record] = {}
"""By `threading.get_ident()` of the thread that pickled last for a queue; it counts while `pickles` is set."""
WANTS_SITES: list[object] = []
"""Not empty when somebody asks where an object was put that is being pickled."""
HERE = Here()


def forget() -> None:
    """In a child that was forked: nothing is recorded yet, and frames that are under way store to nowhere."""
    for record in RECORDS.values():
        record.words = _scratch()
    RECORDS.clear()
    SENDERS.clear()


os.register_at_fork(after_in_child=forget)


# Records


def record_of(queue: Any, made_at: int = 0) -> Record:
    """The record of a queue that was just made, or is used for the first time in this process."""
    known = RECORDS.get(id(queue))
    if known is not None:
        return known
    inode, made = _inode(queue), _made(queue, made_at)
    number = WRITER.queues.take() if WRITER.ready() else None
    if number is None:
        return NOWHERE
    record = Record()
    record.number, record.inode, record.words = number, inode, WRITER.queues.words(number)
    record.life = KeyedRef(queue, _gone, id(queue))
    _describe(record.words, inode, made)
    _find_feeder(record, queue)
    kept = RECORDS.setdefault(id(queue), record)
    if kept is not record:
        # Another thread was faster.
        _clear(record)
    return kept


def _gone(life: KeyedRef[int, Any]) -> None:
    """The queue is being deallocated; called by the garbage collector at any time."""
    try:
        if sys.is_finalizing():
            # What it did last stays to be read.
            return
        record = RECORDS.get(life.key)
        if record is None or record.life is not life:
            return
        del RECORDS[life.key]
        _clear(record)
    except Exception:
        return


def _clear(record: Record) -> None:
    record.words[layout.QUEUE_SEAL] = 0
    # Its feeder may still have things to send.
    record.words = _scratch()
    WRITER.queues.give(record.number)


def _describe(words: memoryview, inode: int, made: int) -> None:
    for at in range(layout.QUEUES.record_words):
        words[at] = 0
    words[layout.INODE], words[layout.MADE] = inode, made
    words[layout.QUEUE_SEAL] = layout.seal((inode, made))


def _inode(queue: Any) -> int:
    """Of its pipe, by the end that is not closed.

    Raises:
        OSError: both are.
    """
    try:
        return os.fstat(queue._reader.fileno()).st_ino
    except OSError:
        return os.fstat(queue._writer.fileno()).st_ino


def _made(queue: Any, made_at: int) -> int:
    capacity = getattr(queue, "_maxsize", 0)
    return layout.made(_kind(queue), made_at, 0 if capacity >= UNBOUNDED else capacity)


def _kind(queue: Any) -> int:
    """The last one of `KINDS` that it is: a joinable queue is a queue too."""
    bases = [base.__name__ for base in type(queue).__mro__]
    return max((at for at, kind in enumerate(layout.KINDS) if kind in bases), default=0)


def _find_feeder(record: Record, queue: Any) -> None:
    """Where the shim came late the feeder runs already."""
    thread = getattr(queue, "_thread", None)
    if thread is not None and thread.ident:
        SENDERS[thread.ident] = record


def _outside_of_the_library(frame: FrameType | None) -> FrameType | None:
    """Who made a queue: not the context, the pool or the executor, but who called it."""
    while frame is not None and _is_standard(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _is_standard(file: str) -> bool:
    return file.startswith(_STANDARD_LIBRARY) and _PACKAGES not in file


# Hooks


def hook(module: ModuleType) -> None:
    """Put them into `multiprocessing.queues`."""
    queue, joinable, simple = module.Queue, module.JoinableQueue, module.SimpleQueue
    pass_over(queue.put_nowait.__code__, queue.get_nowait.__code__)
    replace(queue, "__init__", _init(queue.__init__))
    replace(simple, "__init__", _init(simple.__init__))
    replace(queue, "put", _put(queue.put))
    replace(joinable, "put", _put(joinable.put))
    replace(simple, "put", _put_simple(simple.put))
    replace(queue, "get", _get(queue.get))
    replace(simple, "get", _get_simple(simple.get))
    replace(queue, "_start_thread", _start_thread(queue._start_thread))
    replace(queue, "_on_queue_feeder_error", staticmethod(_on_error(queue._on_queue_feeder_error)))
    replace(module, "_ForkingPickler", _pickler(module._ForkingPickler))
    reduction = module.context.reduction
    replace(reduction, "DupFd", _dup_fd(reduction.DupFd))


def _init(original: Callable[..., None]) -> Callable[..., None]:
    @wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        try:
            maker = _outside_of_the_library(frame_of(1))
            record_of(self, site_of(maker) if maker else 0)
        except Exception:
            return

    return init


def _begin(queue: Any, moment: int, begun: int) -> Record:
    """Note when and where the hook that calls this was called."""
    try:
        record = RECORDS.get(id(queue)) or record_of(queue)
        frame = frame_of(2)
        site = record.site = SITES.get((id(frame.f_code), frame.f_lasti)) or site_of(frame)
        words = record.words
        words[moment] = monotonic_ns() & MOMENT_BITS | site
        words[begun] += 1
    except Exception:
        return NOWHERE
    return record


def _put(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def put(self: Any, obj: Any, block: bool = True, timeout: float | None = None) -> Any:  # noqa: FBT001, FBT002
        record = _begin(self, PUT, PUTS_BEGUN)
        if WANTS_SITES:
            record.note_site(obj)
        try:
            result = original(self, obj, block, timeout)
        except BaseException:
            record.words[PUTS_FAILED] += 1
            raise
        record.words[PUTS] += 1
        return result

    return put


def _put_simple(original: Callable[..., Any]) -> Callable[..., Any]:
    """Without a feeder: who puts pickles too."""

    @wraps(original)
    def put(self: Any, obj: Any) -> Any:
        record = SENDERS[get_ident()] = _begin(self, PUT, PUTS_BEGUN)
        if WANTS_SITES:
            record.note_site(obj)
        try:
            result = original(self, obj)
        except BaseException:
            record.words[PUTS_FAILED] += 1
            raise
        record.words[PUTS] += 1
        return result

    return put


def _get(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def get(self: Any, block: bool = True, timeout: float | None = None) -> Any:  # noqa: FBT001, FBT002
        record = HERE.gets_from = _begin(self, GET, GETS_BEGUN)
        try:
            result = original(self, block, timeout)
        except BaseException:
            record.words[GETS_FAILED] += 1
            raise
        finally:
            HERE.gets_from = None
        record.words[GETS] += 1
        return result

    return get


def _get_simple(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def get(self: Any) -> Any:
        record = HERE.gets_from = _begin(self, GET, GETS_BEGUN)
        try:
            result = original(self)
        except BaseException:
            record.words[GETS_FAILED] += 1
            raise
        finally:
            HERE.gets_from = None
        record.words[GETS] += 1
        return result

    return get


def _start_thread(original: Callable[..., None]) -> Callable[..., None]:
    @wraps(original)
    def _start_thread(self: Any) -> None:
        original(self)
        # Inside of `with self._notempty`: the feeder cannot have pickled anything yet.
        try:
            _find_feeder(record_of(self), self)
        except Exception:
            return

    return _start_thread


def _on_error(original: Callable[[BaseException, Any], None]) -> Callable[[BaseException, Any], None]:
    @wraps(original)
    def _on_queue_feeder_error(e: BaseException, obj: Any) -> None:
        record = SENDERS.get(get_ident())
        if record is not None:
            record.words[LOST] = layout.lost_more(record.words[LOST], record.site_of(id(obj)))
        original(e, obj)

    return _on_queue_feeder_error


def _dup_fd(original: Callable[[int], Any]) -> Callable[[int], Any]:
    """Of `multiprocessing.reduction`: what a file is pickled to, such as that of a tensor on the CPU."""

    @wraps(original)
    def DupFd(fd: int) -> Any:  # noqa: N802  its name
        record = SENDERS.get(get_ident())
        if record is not None and record.pickles:
            record.words[DESCRIPTORS] += 1
        return original(fd)

    return DupFd


def _pickler(original: Any) -> Any:
    """What `_ForkingPickler` of that module stands for from now on: pickling elsewhere is not touched."""

    def dumps(obj: Any, protocol: int | None = None) -> Any:
        record = SENDERS.get(get_ident())
        if record is None:
            return original.dumps(obj, protocol)
        record.pickles = id(obj)
        try:
            pickled = original.dumps(obj, protocol)
        finally:
            record.pickles = 0
        words = record.words
        words[SENT] += 1
        words[SENT_BYTES] += len(pickled)
        return pickled

    def loads(pickled: Any, *args: Any, **kwargs: Any) -> Any:
        record = HERE.gets_from
        if record is not None:
            record.words[RECEIVED_BYTES] += len(pickled)
        return original.loads(pickled, *args, **kwargs)

    hooked = {"dumps": staticmethod(dumps), "loads": staticmethod(loads), "__module__": original.__module__}
    return type(original.__name__, (original,), hooked)
