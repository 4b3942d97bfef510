"""Who holds a multiprocessing lock: the ledger CPython keeps in each process, read from its memory.

Every `multiprocessing.Lock`, `RLock`, `Semaphore` and `Queue` is a `SemLockObject` in each process that uses it
(Modules/_multiprocessing/semaphore.c, the same layout from Python 3.9 to 3.14 with the GIL):

    PyObject_HEAD; sem_t *handle; unsigned long last_tid; int count; int maxvalue; int kind; char *name;

`handle` is where the semaphore is mapped, so the object is found by searching that address in the process's private
memory, whatever the start method and the Python version; its type's name proves the hit.
`count` is how often this process acquired minus how often it released, `last_tid` which thread acquired last.

No process is stopped for it.  A search reads at most `SEARCH_LIMIT` bytes in at most `DEADLINE_S`; the caller searches
only for semaphores that a thread waits for.
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Iterator

from mpmon.model import SemaphoreUse, Unknown
from mpmon.probes.aside import may_hang
from mpmon.probes.files import Proc
from mpmon.probes.maps import Area, areas
from mpmon.probes.memory import Memory, Touched

SEARCH_LIMIT = 2 << 30
"""Most bytes searched per process, small mappings first: Python's objects live in arenas of 1 MiB."""

DEADLINE_S = 1.5
"""Time limit per process, seconds."""

CHUNK = 1 << 22
"""Bytes per read of a search."""

_HEAD = 16
"""PyObject_HEAD: reference count and type."""

_OBJECT = struct.Struct("=QQQQiii")
"""refcount, type, handle, last_tid, count, maxvalue, kind."""

_TYPE_NAME_AT = 24
"""Offset of `tp_name` in PyTypeObject: after PyObject_VAR_HEAD."""

_RECURSIVE, _SEMAPHORE = 0, 1
"""RECURSIVE_MUTEX and SEMAPHORE of semaphore.c."""


@may_hang
def semaphore_uses(proc: Proc, pid: int, names: frozenset[str]) -> tuple[tuple[SemaphoreUse, ...], Unknown | None]:
    """What the process has acquired of these semaphores, and why the answer is incomplete."""
    try:
        everything = areas(proc, pid)
        with Memory(proc, pid) as memory, Touched(proc, pid) as touched:
            search = _Search(memory, touched, everything, pid, names)
            rows = tuple(search.rows())
    except OSError as problem:
        reason = f"memory cannot be read ({(problem.strerror or 'failed').lower()})"
        return (), Unknown(table="semaphores", pid=pid, reason=reason)
    return rows, Unknown(table="semaphores", pid=pid, reason=search.problem) if search.problem else None


TOO_MUCH = "too much memory to search all of it"


class _Search:
    """One search through the private memory of one process."""

    def __init__(
        self, memory: Memory, touched: Touched, everything: list[Area], pid: int, names: frozenset[str]
    ) -> None:
        self._memory = memory
        self._touched = touched
        self._pid = pid
        self._wanted = {area.start: area.semaphore for area in everything if area.semaphore in names}
        self._private = sorted((area for area in everything if area.is_private_memory), key=lambda area: area.size)
        self._types: dict[int, bool] = {}
        self.problem = ""

    def rows(self) -> Iterator[SemaphoreUse]:
        """Every SemLock object of the wanted semaphores."""
        if not self._wanted:
            return
        needles = {struct.pack("=Q", address): name for address, name in self._wanted.items()}
        found: set[int] = set()
        for position, chunk in self._chunks():
            for needle, name in needles.items():
                for hit in _aligned(chunk, needle):
                    address = position + hit - _HEAD
                    row = self._use(address, name) if address not in found else None
                    if row:
                        found.add(address)
                        yield row

    def _chunks(self) -> Iterator[tuple[int, bytes]]:
        deadline = time.monotonic() + DEADLINE_S
        left = SEARCH_LIMIT
        for area in self._private:
            for start, end in self._touched.within(area, deadline):
                for position in range(start, end, CHUNK):
                    if left <= 0 or time.monotonic() > deadline:
                        self.problem = TOO_MUCH
                        return
                    chunk = self._memory.read_some(position, min(CHUNK, end - position))
                    if not chunk:
                        break
                    left -= len(chunk)
                    yield position, chunk
            if time.monotonic() > deadline:
                self.problem = TOO_MUCH
                return

    def _use(self, address: int, name: str) -> SemaphoreUse | None:
        text = self._memory.read(address, _OBJECT.size)
        if text is None:
            return None
        references, kind_of, _, last, count, most, kind = _OBJECT.unpack(text)
        possible = 0 < references < 1 << 32 and most >= 1 and kind in (_RECURSIVE, _SEMAPHORE)
        if not possible or not self._is_semlock(kind_of):
            return None
        return SemaphoreUse(
            pid=self._pid,
            object=name,
            count=count,
            max_value=most,
            recursive=kind == _RECURSIVE,
            thread_ident=last or None,
        )

    def _is_semlock(self, kind: int) -> bool:
        if kind not in self._types:
            pointer = self._memory.unpack("Q", kind + _TYPE_NAME_AT)
            text = self._memory.read(pointer[0], 24) if pointer else None
            self._types[kind] = text is not None and text.startswith(b"_multiprocessing.SemLock")
        return self._types[kind]


def _aligned(chunk: bytes, needle: bytes) -> Iterator[int]:
    """The aligned positions of a word. Most memory is zeros, and a plain text search for a word ending in zeros stops
    at each of them.
    """
    core = needle.strip(b"\0")
    ahead = needle.index(core)
    for found in re.finditer(re.escape(core), chunk):
        at = found.start() - ahead
        if at % 8 == 0 and chunk[at : at + 8] == needle:
            yield at
