"""The shim's file, word by word: the format shared by its writer (`mpmon.shim.writer`) and its reader (`mpmon.probes.shim`).

The file is a header and four regions at fixed places, all of words of 8 bytes in the machine's byte order.  It is sparse:
only the steps of a region that are in use have pages, and these are allocated before anything is stored there.

Each word has a single writing process, so no lock is needed: reads of an 8-byte word are atomic. Where several words belong
together, one is a seal over the others and written last: a reader accepts a record only if its seal matches.  A seal of 0
means that the record is free.

Times are CLOCK_MONOTONIC in nanoseconds, with the lowest 16 bits (65 µs) replaced by the number of a text: time
and place in one word.
"""

from __future__ import annotations

import sys
from functools import reduce
from operator import xor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MAGIC = 0x6D706D6F6E2E7132
"""`mpmon.q2`: a file of another byte order or version does not begin with it."""

WORD = 8

# Header

PID, START_TICKS, PPID, PGID, OPENED_AT, IDENTITY_SEAL = range(1, 7)
"""The writing process, by its pid in its own namespace; the start is field 22 of proc_pid_stat(5)."""
DROPPED = 8
"""Number of records dropped for lack of room."""
COLLECTED_AT = 9
"""When torch.cuda.ipc_collect() was last called."""
HEADER_WORDS = 64


class Region:
    """Records of one kind: where they begin, how long one is, how many there can be."""

    def __init__(self, number: int, start: int, record_words: int, most: int) -> None:
        self.start = start
        """Offset in the file, bytes."""
        self.record_words = record_words
        self.most = most
        self.used_at = 16 + 2 * number
        """Word of the header: how many records were ever used; readers stop there."""
        self.generation_at = self.used_at + 1
        """Word of the header that differs after every change: `ONE_WRITTEN` more for each transfer sent or received, 1 more
        for any other change; queues, whose counters change all the time, have none."""

    @property
    def record_bytes(self) -> int:
        """Length of one record."""
        return self.record_words * WORD


ONE_WRITTEN = 1 << 32


def written(generation: int) -> int:
    """How many transfers were ever sent or received, including dropped ones."""
    return generation >> 32


QUEUES = Region(0, HEADER_WORDS * WORD, 16, 504)
TEXTS = Region(1, 1 << 16, 16, 2048)
EXPORTS = Region(2, 5 << 16, 5, 16384)
IMPORTS = Region(3, 15 << 16, 5, 16384)
SIZE = 25 << 16
STEP = 8192
"""Bytes of a region that are allocated at a time."""

# A queue: what one process did with it

(
    QUEUE_SEAL, INODE, MADE,
    PUT, PUTS_BEGUN, PUTS, PUTS_FAILED,
    GET, GETS_BEGUN, GETS, GETS_FAILED,
    SENT, SENT_BYTES, RECEIVED_BYTES, LOST, DESCRIPTORS,
) = range(16)  # fmt: skip
"""`INODE` of the pipe; `MADE` as `made`; `PUT`, `GET`: when and where the last one began; the others count, `LOST` as `lost`."""

KINDS = ("Queue", "JoinableQueue", "SimpleQueue")


def made(kind: int, site: int, capacity: int) -> int:
    """Place in `KINDS`, text of the line that made the queue, and how many items it takes, 0 for any number."""
    return kind | site << 8 | (capacity & 0xFFFFFFFF) << 24


def unmade(word: int) -> tuple[int, int, int]:
    """Kind, site and capacity."""
    return word & 0xFF, word >> 8 & 0xFFFF, word >> 24 & 0xFFFFFFFF


def lost_more(word: int, site: int) -> int:
    """One more object that could not be sent, and where it was put."""
    return (word >> 16) + 1 << 16 | site


def unlost(word: int) -> tuple[int, int]:
    """How many could not be sent, and where the last one was put."""
    return word >> 16, word & TEXT_BITS


# A transfer: one block of CUDA memory sent or received

WHAT, WHICH, AT, GONE_AT, TRANSFER_SEAL = range(5)
"""`AT`: when and where; `GONE_AT`: when the producer was seen to have dropped it, else 0."""

AGAIN = 1
"""The consumer had that storage already."""
SYNCED = 2
"""The producer had no event left, so it synchronized the whole stream."""


def what(size: int, device: int, flags: int) -> int:
    """Bytes of the storage, number of the device, flags."""
    return (size & 0xFFFFFFFFFFFF) << 16 | (device & 0xFF) << 8 | flags


def unwhat(word: int) -> tuple[int, int, int]:
    """Size, device and flags."""
    return word >> 16, word >> 8 & 0xFF, word & 0xFF


def which(inode: int, slot: int, file: int) -> int:
    """Inode of the queue's pipe, or 0; slot of the refcounter; number of the text that is the refcounter's name."""
    return (inode & 0xFFFFFFFF) << 32 | (slot & 0xFFFF) << 16 | file


def unwhich(word: int) -> tuple[int, int, int]:
    """Inode, slot and file."""
    return word >> 32, word >> 16 & 0xFFFF, word & 0xFFFF


# Moments, texts, seals

TEXT_BITS = 0xFFFF
MOMENT_BITS = (1 << 63) - 1 ^ TEXT_BITS
TEXT_BYTES = (TEXTS.record_words - 1) * WORD
"""Longest text, UTF-8; a longer one is cut at its beginning. Text 0 is never written and means unknown."""


def text_seal(text: bytes) -> int:
    """The first word of a text's record: its length and the sum of its bytes."""
    return len(text) << 32 | sum(text)


def untext(record: bytes) -> str | None:
    """The text of a record; `None` for one that is free, half written or damaged."""
    seal_word = int.from_bytes(record[:WORD], sys.byteorder)
    text = record[WORD : WORD + (seal_word >> 32)]
    if not text or text_seal(text) != seal_word:
        return None
    return text.decode("utf-8", "replace")


def seal(words: Iterable[int]) -> int:
    """A checksum word of these, never 0."""
    return reduce(xor, words, MAGIC) or 1
