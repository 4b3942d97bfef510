"""CUDA memory that this process sent or received: one record per transfer, freed when it no longer matters.

torch counts each transfer in a slot of a refcounter file: 1 once sent, 0 when the consumer has released it
(torch/csrc/CudaIPCTypes.cpp).  A sent transfer is over when its slot is 0, unless its memory was in *limbo*: dropped by the
producer first. Then it is freed at the next opportunity: another shared block is freed, or torch.cuda.ipc_collect() is called.

A received transfer is over when the consumer has released it.

There is no notification when a storage is freed, so weak references are checked: some records after every few transfers.

After each transfer the CPU caches are cold (system calls, other processes), and each line of Python costs about
five times what it costs in a loop: hence tuples and few calls where other modules have objects.
"""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock
from collections import deque
from time import monotonic_ns

from . import layout, sites
from .layout import AT, GONE_AT, MAGIC, MOMENT_BITS, ONE_WRITTEN, TRANSFER_SEAL, WHICH
from .writer import WRITER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .writer import Room

    Transfer = tuple[int, "Refcounter", int, int]
    """Number of its record, refcounter and slot, and a weak reference to the storage as torch hands it out; 0 for none."""

CHECK_NS = 50_000_000
"""Shortest interval between checks for transfers that are over, nanoseconds."""

KEPT_REFCOUNTERS = 8
"""The newest refcounters are kept even without a record: the next transfer will use them."""

SPARE_CHECKS = 16
"""Records that are checked in addition to two per transfer since the last check."""

REFCOUNTER_HEADER_WORDS = 8
REFCOUNTER_BYTES = 64 + 8 * 10000
"""CUDA_IPC_REF_COUNTER_FILE_SIZE slots behind the header of at::RefcountedMapAllocator."""

RECORD_WORDS = layout.EXPORTS.record_words


class Refcounter:
    """A file of counts, for as long as records name it."""

    __slots__ = ("_counts", "handle", "is_gone", "name", "text", "uses")

    def __init__(self, handle: bytes) -> None:
        self.handle = handle
        self.name = handle.decode().rpartition("/")[2]
        """Name of its file: the handle is the name for shm_open(3), which begins with a slash."""
        self.text = 0
        self.uses = 0
        self.is_gone = False
        """Its producer has removed it, as torch does once nothing that was sent with it is left, not even in limbo."""
        self._counts: memoryview | None = None

    def read(self) -> None:
        """Read the current counts."""
        self._counts = None
        try:
            descriptor = os.open(f"/dev/shm/{self.name}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                content = os.pread(descriptor, REFCOUNTER_BYTES, 0)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            self.is_gone = True
            return
        except Exception:
            return
        if len(content) == REFCOUNTER_BYTES:
            self._counts = memoryview(content).cast("q")

    def count(self, slot: int) -> int | None:
        """The count at the last read; `None` where that was not possible."""
        if self.is_gone:
            return 0
        return self._counts[REFCOUNTER_HEADER_WORDS + slot] if self._counts is not None else None


class Transfers:
    """All transfers of one direction."""

    __slots__ = (
        "_asked", "_due", "_first_word", "_free", "_free_weak_ref", "_is_expired", "_last", "_lock", "_new", "_refcounters",
        "_room", "_under_way",
    )  # fmt: skip

    def __init__(self, region: layout.Region, storage_type: Any) -> None:
        self._room: Room = WRITER.exports if region is layout.EXPORTS else WRITER.imports
        self._free = self._room.free
        self._first_word = region.start // layout.WORD
        self._lock = allocate_lock()
        self._new: deque[Transfer] = deque()
        """Transfers since the last check."""
        self._under_way: deque[Transfer] = deque()
        self._refcounters: dict[bytes, Refcounter] = {}
        self._last = Refcounter(b"")
        """The last refcounter used: mostly it is the same one again."""
        self._due = 0
        self._asked = False
        self._is_expired = storage_type._expired
        self._free_weak_ref = storage_type._free_weak_ref

    def note(self, handle: bytes, slot: int, storage: Any, what: int, inode: int, site: int) -> None:  # noqa: PLR0917
        """Record one transfer, if there is room; `storage` is `None` for one that was over at once.

        Other threads may run this too: each has its own record, and nothing waits.
        """
        now = monotonic_ns()
        number = self._free.pop() if self._free else self._take()
        if number is not None:
            refcounter = self._last
            if handle != refcounter.handle:
                refcounter = self._find(handle)
            refcounter.uses += 1
            which = inode << 32 | slot << 16 | refcounter.text
            at = now & MOMENT_BITS | site
            words = WRITER.words
            first = self._first_word + number * RECORD_WORDS
            words[first] = what
            words[first + WHICH] = which
            words[first + AT] = at
            # As layout.seal, without the call; `GONE_AT` is 0.
            words[first + TRANSFER_SEAL] = what ^ which ^ at ^ MAGIC
            self._new.append((number, refcounter, slot, 0 if storage is None else storage._weak_ref()))
        room = self._room
        WRITER.words[room.generation_at] = room.changes = room.changes + ONE_WRITTEN
        if now > self._due:
            self._work()

    def check(self) -> None:
        """Check all of them for being over."""
        self._asked = True
        self._work()

    def _take(self) -> int | None:
        """A record that was never in use."""
        return self._room.take() if WRITER.ready() else None

    def _find(self, handle: bytes) -> Refcounter:
        refcounter = self._refcounters.get(handle)
        if refcounter is None:
            refcounter = self._refcounters[handle] = Refcounter(handle)
        # The text may be 0 because another thread held the lock when it was to be written.
        refcounter.text = refcounter.text or sites.text(refcounter.name)
        if refcounter.text:
            self._last = refcounter
        return refcounter

    def _work(self) -> None:
        """Check which are over: in one thread at a time, and the others do not wait for it."""
        while (self._asked or monotonic_ns() > self._due) and self._lock.acquire(False):
            try:
                due = monotonic_ns() + CHECK_NS
                fresh = len(self._new)
                # No call between reading and resetting `_asked`: another thread may set it meanwhile.
                most = sys.maxsize if self._asked else 2 * fresh + SPARE_CHECKS
                self._asked, self._due = False, due
                # Later transfers wait for the next check: their slots may be newer than the counts of this one.
                self._under_way.extend(self._new.popleft() for _ in range(fresh))
                self._check(most)
                self._finish_look()
            finally:
                self._lock.release()

    def _check(self, most: int) -> None:
        """Check the `most` least recently checked transfers for being over."""
        raise NotImplementedError

    def _give_back(self, transfer: Transfer) -> None:
        number, refcounter, _, storage = transfer
        if storage:
            self._free_weak_ref(storage)
        words = WRITER.words
        first = self._first_word + number * RECORD_WORDS
        words[first + TRANSFER_SEAL] = words[first + GONE_AT] = 0
        self._room.give(number)
        refcounter.uses -= 1

    def _finish_look(self) -> None:
        """Forget refcounters that no record names, and notify readers of a change."""
        for handle, refcounter in list(self._refcounters.items())[:-KEPT_REFCOUNTERS]:
            if not refcounter.uses and refcounter is not self._last:
                del self._refcounters[handle]
                sites.forget_text(refcounter.name)
        self._room.changed()


class Imports(Transfers):
    """What this process received."""

    __slots__ = ()

    def _check(self, most: int) -> None:
        """A received transfer is over once its storage has been freed."""
        for _ in range(min(most, len(self._under_way))):
            transfer = self._under_way.popleft()
            if transfer[3] and not self._is_expired(transfer[3]):
                self._under_way.append(transfer)
            else:
                self._give_back(transfer)


class Exports(Transfers):
    """What this process sent."""

    __slots__ = ("_limbo", "_occasions")

    def __init__(self, region: layout.Region, storage_type: Any) -> None:
        super().__init__(region, storage_type)
        self._limbo: deque[tuple[Transfer, int]] = deque()
        """Each with the value of `_occasions` when its slot was first seen at 0; 0 before."""
        self._occasions = 1

    def _check(self, most: int) -> None:
        """A transfer is over when its count is 0; for the others, check whether the producer has dropped the memory."""
        for refcounter in self._refcounters.values():
            if refcounter.uses:
                refcounter.read()
        for _ in range(min(most, len(self._under_way))):
            transfer = self._under_way.popleft()
            _, refcounter, slot, storage = transfer
            if refcounter.count(slot) == 0:
                self._give_back(transfer)
            elif self._is_expired(storage):
                self._let_go(transfer)
            else:
                self._under_way.append(transfer)
        for _ in range(min(most, len(self._limbo))):
            self._check_limbo(*self._limbo.popleft())

    def note_occasion(self) -> None:
        """Note that torch has freed what was in limbo with a slot at 0."""
        self._occasions += 1

    def _let_go(self, transfer: Transfer) -> None:
        """The producer has dropped the memory: torch freed other blocks in limbo at that point, but not this one."""
        self._occasions += 1
        words = self._room.words(transfer[0])
        # Until the seal matches again, readers keep what they saw last.
        words[GONE_AT] = monotonic_ns() & MOMENT_BITS
        words[TRANSFER_SEAL] = layout.seal(words[:TRANSFER_SEAL])
        self._room.changed()
        self._limbo.append((transfer, 0))

    def _check_limbo(self, transfer: Transfer, zero_since: int) -> None:
        is_zero = transfer[1].count(transfer[2]) == 0
        if transfer[1].is_gone or (is_zero and zero_since and self._occasions > zero_since):
            self._give_back(transfer)
        else:
            self._limbo.append((transfer, zero_since or (self._occasions if is_zero else 0)))
