"""Hooks of the standard library's queues: `multiprocessing.queues`, which torch.multiprocessing, pools and executors use too.

What is recorded of a queue in this process: the lines that last called `put` and `get` and when, how often each returned, what
was pickled and received, what the feeder thread lost.

The hooks record before and after, and call the original in between with unchanged arguments. Incrementing a word of the file
is safe between threads: CPython releases the GIL only at calls and jumps, and there is none between reading the count and
storing it.  Per-item counts are read from the record, which is faster than reading them from the file. Hooks fetch
`record.words` anew after each call: the call may have forked, and then they are the child's.

`put` and `get` duplicate the code that notes a call: a shared function would cost one more call per item.
"""

from __future__ import annotations

from _thread import get_ident
from functools import wraps
from time import monotonic_ns

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
    lost_more,
)
from .patches import replace
from .records import HERE, NOTHING, NOWHERE, RECORDS, find_feeder, record_of, who_made
from .sites import frame_of, line_of, pass_over, site_of
from .whose import is_from_job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

WANTS_SITES: list[object] = []
"""Not empty while the line that put each pickled object is wanted."""


def hook(module: ModuleType) -> None:
    """Install the hooks in `multiprocessing.queues`."""
    queue, joinable, simple = module.Queue, module.JoinableQueue, module.SimpleQueue
    pass_over(queue.put_nowait.__code__, queue.get_nowait.__code__)
    for kind in (queue, simple):
        replace(kind, "__init__", _init(kind.__init__))
    for kind in (queue, joinable, simple):
        replace(kind, "put", _put(kind.put, has_feeder=kind is not simple))
    for kind in (queue, simple):
        replace(kind, "get", _get(kind.get))
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
            maker = who_made(frame_of(1))
            record_of(self, site_of(maker) if maker else 0)
        except Exception as problem:
            if is_from_job(problem):
                raise

    return init


def _put(original: Callable[..., Any], *, has_feeder: bool) -> Callable[..., Any]:
    @wraps(original)
    def put(self: Any, obj: Any, *more: Any, **named: Any) -> Any:
        record, at, site = NOWHERE, 0, 0
        try:
            at = monotonic_ns() & MOMENT_BITS
            key = id(self)
            record = RECORDS[key] if key in RECORDS else record_of(self)
            frame = frame_of(1)
            code, offset, known = record.put_from
            if frame.f_code is code and frame.f_lasti == offset:
                site = known
            else:
                record.put_from = line = line_of(frame)
                site = line[2]
        except Exception as problem:
            if is_from_job(problem):
                raise
        words = record.words
        words[PUT] = at | site
        words[PUTS_BEGUN] = record.puts_begun = record.puts_begun + 1
        if (WANTS_SITES and site != record.usual_site) or record.sites:
            record.note_site(obj, site)
        if not has_feeder:
            # Without a feeder, the thread that puts also pickles.
            HERE[get_ident()].sends = record
        try:
            result = original(self, obj, *more, **named) if more or named else original(self, obj)
        except BaseException:
            record.words[PUTS_FAILED] += 1
            raise
        record.words[PUTS] = record.puts = record.puts + 1
        return result

    return put


def _get(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def get(self: Any, *more: Any, **named: Any) -> Any:
        record, at, site = NOWHERE, 0, 0
        try:
            at = monotonic_ns() & MOMENT_BITS
            key = id(self)
            record = RECORDS[key] if key in RECORDS else record_of(self)
            frame = frame_of(1)
            code, offset, known = record.get_from
            if frame.f_code is code and frame.f_lasti == offset:
                site = known
            else:
                record.get_from = line = line_of(frame)
                site = line[2]
        except Exception as problem:
            if is_from_job(problem):
                raise
        words = record.words
        words[GET] = at | site
        words[GETS_BEGUN] = record.gets_begun = record.gets_begun + 1
        here = HERE[get_ident()]
        before = here.receives
        here.receives = record
        try:
            result = original(self, *more, **named) if more or named else original(self)
        except BaseException:
            record.words[GETS_FAILED] += 1
            raise
        finally:
            here.receives = before
        record.words[GETS] = record.gets = record.gets + 1
        return result

    return get


def _start_thread(original: Callable[..., None]) -> Callable[..., None]:
    @wraps(original)
    def _start_thread(self: Any) -> None:
        original(self)
        # Inside of `with self._notempty`: so the feeder cannot have pickled anything yet.
        try:
            find_feeder(record_of(self), self)
        except Exception as problem:
            if is_from_job(problem):
                raise

    return _start_thread


def _on_error(original: Callable[[BaseException, Any], None]) -> Callable[[BaseException, Any], None]:
    @wraps(original)
    def _on_queue_feeder_error(e: BaseException, obj: Any) -> None:
        record = HERE[get_ident()].sends
        if record is not None:
            record.words[LOST] = lost_more(record.words[LOST], record.site_of(obj))
        original(e, obj)

    return _on_queue_feeder_error


def _dup_fd(original: Callable[[int], Any]) -> Callable[[int], Any]:
    """Hooks `DupFd` of `multiprocessing.reduction`, by which a descriptor is pickled, such as that of a CPU tensor's file."""

    @wraps(original)
    def DupFd(fd: int) -> Any:  # noqa: N802  its name
        here = HERE[get_ident()]
        record = here.sends
        if record is not None and here.pickled is not NOTHING:
            record.words[DESCRIPTORS] += 1
        return original(fd)

    return DupFd


def _pickler(original: Any) -> Any:
    """The replacement for `_ForkingPickler` in that module only: pickling elsewhere is not touched."""

    def dumps(obj: Any, protocol: int | None = None) -> Any:
        here = HERE[get_ident()]
        record = here.sends
        if record is None:
            return original.dumps(obj, protocol)
        before = here.pickled
        here.pickled = obj
        try:
            pickled = original.dumps(obj, protocol)
        finally:
            # Pickling may have put into another queue.
            here.sends, here.pickled = record, before
        length = len(pickled)
        words = record.words
        words[SENT] = record.sent = record.sent + 1
        words[SENT_BYTES] = record.sent_bytes = record.sent_bytes + length
        return pickled

    def loads(pickled: Any, *more: Any, **named: Any) -> Any:
        record = HERE[get_ident()].receives
        if record is not None:
            length = len(pickled)
            record.words[RECEIVED_BYTES] = record.received_bytes = record.received_bytes + length
        return original.loads(pickled, *more, **named) if more or named else original.loads(pickled)

    hooked = {"dumps": staticmethod(dumps), "loads": staticmethod(loads), "__module__": original.__module__}
    return type(original.__name__, (original,), hooked)
