"""The queues this process uses, and what it does with them now.

A queue is known in all processes by the inode of its pipe.  Its record in the file lasts as long as the queue. Recording
never makes a call fail: if it is impossible, it goes to `NOWHERE`.
"""

from __future__ import annotations

import os
import sys
from weakref import KeyedRef

from . import layout
from .layout import PUT, TEXT_BITS
from .sites import NO_LINE
from .whose import is_standard
from .writer import WRITER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

UNBOUNDED = 0x7FFFFFFF
"""`_maxsize` of a queue without a bound: SEM_VALUE_MAX of glibc's semaphore.h."""

MOST_WAITING = 1000
"""Limit of objects that were put and not yet pickled whose line is remembered."""


class Record:
    """What this process records of one queue, until the queue is gone."""

    __slots__ = (
        "get_from", "gets", "gets_begun", "inode", "life", "number", "pid", "put_from", "puts", "puts_begun",
        "received_bytes", "sent", "sent_bytes", "sites", "usual_site", "words",
    )  # fmt: skip

    def __init__(self) -> None:
        self.life: KeyedRef[int, Any] | None = None
        """A weak reference that reports when the queue is gone; its key is the queue's address."""
        self.pid = os.getpid()
        self.inode = 0
        self.number = 0
        self.words = _scratch()
        """Words of the file, or of `NOWHERE`."""
        self.puts_begun = self.puts = self.gets_begun = self.gets = 0
        self.sent = self.sent_bytes = self.received_bytes = 0
        """Copies of the counts in the words."""
        self.forget_sites()

    def forget_sites(self) -> None:
        """Forget all lines: at the beginning, and when the numbers of texts become invalid."""
        self.put_from = self.get_from = NO_LINE
        """The last calling line: mostly it is the same one again."""
        self.usual_site = 0
        self.sites: dict[int, int] = {}
        """By the address of an object that waits to be pickled; empty as long as all were put at the usual line."""

    def note_site(self, obj: object, site: int) -> None:
        """Remember where an object was put, if that is not the usual line, or other lines are in use."""
        if len(self.sites) >= MOST_WAITING:
            self.sites.clear()
            self.usual_site = 0
        if self.usual_site:
            self.sites[id(obj)] = site
        else:
            self.usual_site = site

    def site_of(self, obj: object) -> int:
        """Where an object was put; if unknown, the usual or the last place."""
        known = self.sites.get(id(obj)) if self.sites else 0
        return known or self.usual_site or self.words[PUT] & TEXT_BITS


def _scratch() -> memoryview:
    return memoryview(bytearray(layout.QUEUES.record_bytes)).cast("Q")


NOWHERE = Record()
"""For queues without room in the file, and for failed recordings."""
RECORDS: dict[int, Record] = {}
"""By the address of the queue."""


NOTHING = object()
"""In `Here.pickled`: `None` can be put too."""


class Here:
    """What one thread does now."""

    __slots__ = ("pickled", "receives", "sends")

    def __init__(self) -> None:
        self.sends: Record | None = None
        """The queue it pickles for; for a feeder, as long as it lives."""
        self.pickled: object = NOTHING
        """The object that it is pickling for that queue."""
        self.receives: Record | None = None
        """The queue it receives from."""


class Threads(dict[int, Here]):
    """By `threading.get_ident()`; an unknown thread does nothing."""

    def __missing__(self, thread: int) -> Here:
        return self.setdefault(thread, Here())


HERE = Threads()


def forget() -> None:
    """In a forked child: nothing is recorded yet, and calls in progress write to scratch words."""
    # A copy: the garbage collector may run here, and end queues.
    for record in list(RECORDS.values()):
        record.words = _scratch()
    NOWHERE.forget_sites()
    RECORDS.clear()
    HERE.clear()


os.register_at_fork(after_in_child=forget)


def record_of(queue: Any, made_at: int = 0) -> Record:
    """The record of a queue that was just made, or is used for the first time in this process."""
    known = RECORDS.get(id(queue))
    if known is not None or not WRITER.ready():
        return known or NOWHERE
    try:
        # These call into the queue, whose class may be the job's.
        inode, made = _inode(queue), _made(queue, made_at)
    except Exception:
        return NOWHERE
    number = WRITER.queues.take()
    return NOWHERE if number is None else _new(queue, number, inode, made)


def find_feeder(record: Record, queue: Any) -> None:
    """Attribute what the queue's feeder pickles to this queue, from now on."""
    thread = getattr(queue, "_thread", None)
    if thread is not None and thread.ident:
        HERE[thread.ident].sends = record


def who_made(frame: FrameType | None) -> FrameType | None:
    """The line that made a queue: not the context, the pool or the executor, but their caller."""
    while frame is not None and is_standard(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _new(queue: Any, number: int, inode: int, made: int) -> Record:
    record = Record()
    record.number, record.inode, record.words = number, inode, WRITER.queues.words(number)
    record.life = KeyedRef(queue, _gone, id(queue))
    _describe(record.words, inode, made)
    kept = RECORDS.setdefault(id(queue), record)
    if kept is record:
        # If the shim was turned on late, the feeder already runs.
        find_feeder(record, queue)
    else:
        # Another thread was faster.
        _clear(record)
    return kept


def _gone(life: KeyedRef[int, Any]) -> None:
    """The queue is being deallocated; called by the garbage collector at any time."""
    try:
        if sys.is_finalizing():
            # Keep the record, so that the last operations can still be read.
            return
        record = RECORDS.get(life.key)
        # In a freshly forked child that has not run `forget` yet, the words are its parent's.
        if record is None or record.life is not life or record.pid != os.getpid():
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
    """The inode of its pipe, from an end that is not closed.

    Raises:
        OSError: both ends are closed.
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
