"""Readers of foreign memory before garbage, lying maps and processes that end in the middle.

Whatever they find, they end, within the bytes and the time they promise, with rows or a reason.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mpmon.codec import encode
from mpmon.model import SemaphoreUse, Unknown
from mpmon.probes import memory as memory_module
from mpmon.probes import semaphores
from mpmon.probes.files import Proc
from mpmon.probes.interpreter.frames import DEEPEST, NO_HANDLER, handler_depth
from mpmon.probes.interpreter.inside import Inside
from mpmon.probes.interpreter.layouts import COOKIE, PUBLISHED, TABLE, Layout
from mpmon.probes.interpreter.look import found_in
from mpmon.probes.interpreter.pages import READS
from mpmon.probes.interpreter.runtime import NoInterpreter, Runtime, _confirmed, _symbols, _symbols_of, find_runtime
from mpmon.probes.interpreter.tids import ThreadIds, Tids
from mpmon.probes.maps import Area, areas, layout
from mpmon.probes.memory import READ_LIMIT, Memory, Touched
from mpmon.probes.semaphores import semaphore_uses
from tests.probes.garbage import GarbageMemory, LyingProc, maps_line

PID = 4100
SHARED = 0x7F0000000000
NAME = "semaphore:00:1b:7:0"
HEAP, HEAP_END = 0x10000, 0x50000
LIMIT, CHUNK = 1 << 18, 1 << 14
OBJECT_S = semaphores._OBJECT.size + semaphores._HEAD + 24
"""Bytes that are read around one hit."""

MAPS = maps_line(HEAP, HEAP_END, path="[heap]") + maps_line(
    SHARED, SHARED + 0x1000, rights="rw-s", inode=7, path="/dev/shm/sem.mp-x (deleted)"
)

Answer = tuple[tuple[SemaphoreUse, ...], Unknown | None]

seeds = st.integers(0, 1 << 32)
addresses = st.one_of(st.integers(-(1 << 66), 1 << 66), st.sampled_from([0, 1, (1 << 47) - 1, (1 << 63) - 1, 1 << 63]))


def search(memory: object, maps: str = MAPS, *, limit: int = LIMIT, deadline_s: float = 60.0) -> Answer:
    """What a search finds in a memory; small limits, so that they are reached."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(semaphores, "Memory", lambda _proc, _pid: memory)
        patch.setattr(semaphores, "SEARCH_LIMIT", limit)
        patch.setattr(semaphores, "CHUNK", CHUNK)
        patch.setattr(semaphores, "DEADLINE_S", deadline_s)
        return semaphore_uses(LyingProc(maps=maps.encode()), PID, frozenset({NAME}))


def semlock(kind: int, *, references: int = 1, count: int = 1) -> bytes:
    """A `SemLockObject` whose handle is the shared semaphore."""
    return semaphores._OBJECT.pack(references, kind, SHARED, 77, count, 1, 1)


def type_and_name(kind: int, name: bytes = b"_multiprocessing.SemLock\0") -> dict[int, bytes]:
    """A type object, and its name behind it."""
    return {kind + semaphores._TYPE_NAME_AT: struct.pack("=Q", kind + 0x200), kind + 0x200: name}


# Garbage


@given(seeds, st.sampled_from([0.0, 0.1, 0.9]), st.none() | st.integers(0, 40))
def test_a_search_through_garbage_ends_within_its_bytes(seed: int, fails: float, ends_after: int | None) -> None:
    memory = GarbageMemory(seed, [(HEAP, HEAP_END)], words=(SHARED,), fails=fails, ends_after=ends_after)
    rows, unknown = search(memory)
    assert (rows, unknown) == ((), None)
    hits = memory.reads
    assert memory.bytes <= LIMIT + CHUNK + hits * OBJECT_S


@given(seeds, st.integers(-(1 << 31), (1 << 31) - 1), st.integers(0, (HEAP_END - HEAP) // 8 - 6))
def test_a_lock_is_found_in_the_midst_of_garbage(seed: int, count: int, place: int) -> None:
    at, kind = HEAP + 8 * place, HEAP_END + 0x1000
    planted = {at: semlock(kind, count=count), **type_and_name(kind)}
    memory = GarbageMemory(seed, [(HEAP, HEAP_END)], hidden=[(kind, kind + 0x1000)], words=(SHARED,), planted=planted)
    rows, unknown = search(memory)
    assert rows == (SemaphoreUse(pid=PID, object=NAME, count=count, max_value=1, thread_ident=77),)
    assert unknown is None
    assert encode(rows[0])


@pytest.mark.parametrize(
    "planted",
    [
        {HEAP: semlock(HEAP, references=0), **type_and_name(HEAP)},
        {HEAP: semlock(HEAP, references=-1 % (1 << 64)), **type_and_name(HEAP)},
        {HEAP: semlock(0)},
        {HEAP: semlock((1 << 64) - 8)},
        {HEAP: semlock(HEAP)},
        {HEAP: semlock(HEAP + 0x1000), **type_and_name(HEAP + 0x1000, b"_multiprocessing.SemLoc")},
        {HEAP_END - 24: semlock(HEAP)[:24]},
    ],
    ids=["freed", "overwritten", "no type", "type beyond memory", "its own type", "name too short", "cut by the end"],
)
def test_what_only_looks_like_a_lock_is_none(planted: dict[int, bytes]) -> None:
    assert search(GarbageMemory(1, [(HEAP, HEAP_END)], planted=planted)) == ((), None)


def test_too_much_memory_is_said() -> None:
    memory = GarbageMemory(1, [(HEAP, HEAP_END)])
    _, unknown = search(memory, limit=1 << 15)
    assert unknown == Unknown(table="semaphores", pid=PID, reason="too much memory to search all of it")
    assert memory.bytes <= (1 << 15) + CHUNK


def test_terabytes_that_were_never_touched_end_with_the_deadline() -> None:
    with Touched(Proc(), os.getpid()) as touched:
        area = Area(maps_line(1 << 32, 1 << 46).strip())
        assert list(touched.within(area, time.monotonic())) == []


def test_an_endless_area_without_memory_ends_with_the_deadline() -> None:
    maps = MAPS + maps_line(1 << 32, 1 << 46)
    memory = GarbageMemory(1, [(HEAP, HEAP_END)], most_reads=1 << 62, most_bytes=1 << 80)
    _, unknown = search(memory, maps, deadline_s=0.02)
    assert unknown is not None
    assert "too much" in unknown.reason


# Maps


@given(st.integers(0, len(MAPS)))
def test_maps_may_be_cut_anywhere(end: int) -> None:
    proc = LyingProc(maps=MAPS[:end].encode())
    whole = areas(proc, PID)
    assert len(whole) <= MAPS.count("\n")
    by_address = layout(proc, PID)
    for area in whole:
        found = by_address.at(area.start)
        assert found
        assert (found.start, found.end, found.path) == (area.start, area.end, area.path)
        assert by_address.at(area.end - 1) is found


@example("photos\x1cof may and june in 2026.bin")
@given(st.text("a0-r \r\x0c\x1c\u2028", min_size=1))
def test_a_mapped_file_may_have_any_name(name: str) -> None:
    """The kernel escapes the line feed only."""
    proc = LyingProc(maps=(maps_line(HEAP, HEAP_END, inode=9, path="/" + name) + MAPS).encode())
    assert [area.start for area in areas(proc, PID)] == [HEAP, HEAP, SHARED]


@given(st.lists(st.tuples(addresses, addresses, st.sampled_from(["rw-p", "rw-s", "---p"])), max_size=4), seeds)
def test_areas_that_lie_overlap_or_run_backwards(rows: list[tuple[int, int, str]], seed: int) -> None:
    lies = "".join(maps_line(abs(start), abs(end), rights=rights) for start, end, rights in rows)
    memory = GarbageMemory(seed, [(HEAP, HEAP_END)], words=(SHARED,), most_reads=1 << 62, most_bytes=1 << 100)
    found, _ = search(memory, MAPS + lies, deadline_s=0.01)
    assert found == ()


@given(st.text("0f- rwp:\n", max_size=120))
def test_a_file_of_maps_that_is_none(text: str) -> None:
    assert all(isinstance(area, Area) for area in areas(LyingProc(maps=text.encode()), PID))


# Real memory


@given(addresses, st.integers(-8, READ_LIMIT + 8))
def test_no_address_is_too_strange_to_be_read(address: int, size: int) -> None:
    with Memory(Proc(), os.getpid()) as memory:
        text = memory.read(address, size)
        assert text is None or len(text) == size
        words = memory.unpack("Q", address)
        assert words is None or len(words) == 1


def test_a_read_over_the_end_of_an_area_is_none_and_what_there_is_can_be_had() -> None:
    proc, pid = Proc(), os.getpid()
    everything = areas(proc, pid)
    starts = {area.start for area in everything}
    last = next(area for area in reversed(everything) if area.rights == "rw-p" and area.end not in starts)
    with Memory(proc, pid) as memory:
        assert memory.read(last.end - 8, 16) is None
        assert len(memory.read_some(last.end - 8, 16)) in (0, 8)
        assert memory.read(last.end - 8, 8) is not None


@given(st.sampled_from(["MainThread", "Thread-1"]), addresses)
def test_no_thread_has_an_ident_that_leads_nowhere(name: str, ident: int) -> None:
    expected = PID if name == "MainThread" else None
    assert ThreadIds(LyingProc(), PID).of(name, ident) == expected
    with Memory(Proc(), os.getpid()) as own, pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_module, "Memory", lambda _proc, _pid: contextlib.nullcontext(own))
        assert ThreadIds(Proc(), PID).of(name, ident) == expected


@given(seeds, addresses)
def test_a_thread_id_from_garbage_counts_only_if_there_is_such_a_thread(seed: int, ident: int) -> None:
    tids = {2, 3, 30, 255}
    memory = GarbageMemory(seed, [(HEAP, HEAP_END)], fails=0.2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_module, "Memory", lambda _proc, _pid: memory)
        patch.setattr(Proc, "tids", lambda _proc, _pid: sorted(tids))
        ids = ThreadIds(Proc(), PID)
        found = {ids.of("Thread-1", each) for each in (ident, HEAP + abs(ident) % (HEAP_END - HEAP))}
    assert found <= tids | {None}


# The interpreter


def look(memory: object, layout: Layout, address: int) -> None:
    """Walk all threads that are found from there."""
    sleepers = dict.fromkeys(range(256), f"futex:{PID}:0x10")
    inside = Inside(memory, Runtime(address, layout), Tids(Proc(), os.getpid()), sleepers)  # pyright: ignore[reportArgumentType]
    inside.read()
    assert encode(found_in(inside, running=inside.stacks, looping=inside.stacks, is_parent=True))


@given(seeds, st.sampled_from(sorted(TABLE)), st.sampled_from([0.0, 0.2]), st.none() | st.integers(0, 60))
def test_an_interpreter_made_of_garbage(
    seed: int, version: tuple[int, int], fails: float, ends_after: int | None
) -> None:
    memory = GarbageMemory(seed, [(HEAP, HEAP_END)], fails=fails, ends_after=ends_after, most_reads=READS + 10)
    look(memory, TABLE[version], HEAP)


class Damaged:
    """The memory of this very process, with words that are wrong here and there."""

    def __init__(self, memory: Memory, seed: int, share: float) -> None:
        self._memory, self._random, self._share = memory, random.Random(seed), share

    def read(self, address: int, size: int) -> bytes | None:
        text = self._memory.read(address, size)
        if text is None or self._random.random() > self._share:
            return text
        return self._random.choice([None, self._random.randbytes(size), text[:-1] + b"\x7f", bytes(size)])

    def pieces(self, wanted: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self.read(address, size) or b"" for address, size in wanted]

    def unpack(self, fields: str, address: int) -> tuple[int, ...] | None:
        text = self.read(address, struct.calcsize("=" + fields))
        return None if text is None else struct.unpack("=" + fields, text)


@pytest.mark.skipif(sys.version_info[:2] not in TABLE, reason="a Python whose layout is not known")
@given(seeds, st.sampled_from([0.01, 0.1, 0.5]))
def test_an_interpreter_that_is_damaged(seed: int, share: float) -> None:
    with Memory(Proc(), os.getpid()) as memory:
        runtime = find_runtime(Proc(), os.getpid(), memory, areas(Proc(), os.getpid()))
        look(Damaged(memory, seed, share), runtime.layout, runtime.address)


@given(seeds, st.lists(st.integers(0, (1 << 64) - 1), min_size=3, max_size=3))
def test_what_an_interpreter_publishes_may_be_garbage(seed: int, head: list[int]) -> None:
    for version in PUBLISHED:
        cookie = COOKIE + struct.pack("=QQ", version[0] << 24 | version[1] << 16, 0)
        for planted in (cookie, struct.pack("=3Q", *head)):
            memory = GarbageMemory(seed, [(HEAP, HEAP_END)], planted={HEAP: planted})
            with contextlib.suppress(NoInterpreter):
                look(memory, _confirmed(memory, HEAP, TABLE[version]), HEAP)  # pyright: ignore[reportArgumentType]


@given(st.binary(max_size=400), st.integers(-10, 1 << 20))
def test_an_exception_table_may_be_garbage(table: bytes, at: int) -> None:
    assert NO_HANDLER <= handler_depth(table, at) <= DEEPEST


@given(st.binary(max_size=300))
def test_a_program_may_be_garbage(text: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        for content in (text, b"\x7fELF\x02\x01" + text):
            file.seek(0)
            file.truncate()
            file.write(content)
            file.flush()
            area = Area(maps_line(HEAP, HEAP_END, inode=os.stat(file.name).st_ino, path=file.name).strip())
            _symbols.cache_clear()
            assert _symbols_of(Proc(), os.getpid(), area) == {}


# Processes that end in the middle

NURSERY = """
import ctypes, multiprocessing, os, signal, sys
lock = multiprocessing.get_context("fork").Lock()
lock.acquire()
kept = [bytearray(3000) for _ in range(2000)]
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        while os.getppid() == parent:
            signal.pause()
    print(child, flush=True)
"""
"""Makes a process that holds a lock, each time it is told to."""


class Nursery:
    """Where processes come from that a test may kill."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", NURSERY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def child(self) -> int:
        """One more, which lives."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """End it, and with it what it has made."""
        self._process.communicate()


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


class Doomed(Memory):
    """The memory of a process that is killed before one of the reads."""

    def __init__(self, proc: Proc, pid: int, dies_before: int) -> None:
        super().__init__(proc, pid)
        self.reads = 0
        self._pid, self._dies_before = pid, dies_before

    def read(self, address: int, size: int) -> bytes | None:
        self._step()
        return super().read(address, size)

    def read_some(self, address: int, size: int) -> bytes:
        self._step()
        return super().read_some(address, size)

    def _step(self) -> None:
        if self.reads == self._dies_before:
            kill(self._pid)
        self.reads += 1


def kill(pid: int) -> None:
    """End a process of the nursery and wait until it is gone."""
    with contextlib.closing(_Pidfd(pid)) as process:
        signal.pidfd_send_signal(process.number, signal.SIGKILL)
        select.select([process.number], [], [])


class _Pidfd:
    def __init__(self, pid: int) -> None:
        self.number = os.pidfd_open(pid)

    def close(self) -> None:
        os.close(self.number)


def looked_into(pid: int, dies_before: int) -> tuple[Answer, int]:
    """What a search says of one that dies before so many reads, and how often it read."""
    names = frozenset(area.semaphore for area in areas(Proc(), pid) if area.semaphore)
    opened: list[Doomed] = []

    def opens(proc: Proc, of: int) -> Doomed:
        opened.append(Doomed(proc, of, dies_before))
        return opened[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(semaphores, "Memory", opens)
        answer = semaphore_uses(Proc(), pid, names)
    return answer, opened[-1].reads


def test_a_process_may_end_before_any_read_of_a_search(nursery: Nursery) -> None:
    whole, reads = looked_into(child := nursery.child(), dies_before=-1)
    kill(child)
    assert [(row.count, row.max_value) for row in whole[0]] == [(1, 1)]
    # What lies in the memory of a child differs a little from one to the next.
    for number in range(2 * reads):
        (rows, _), again = looked_into(child := nursery.child(), dies_before=number)
        assert {(row.pid, row.count) for row in rows} <= {(child, 1)}
        if again <= number:
            kill(child)
            return
    pytest.fail("it goes on reading what is dead")


@pytest.mark.parametrize("step", [lambda _: None, lambda pid: areas(Proc(), pid)], ids=["before", "after its maps"])
def test_a_process_that_ends_before_its_memory_is_opened(nursery: Nursery, step: Callable[[int], object]) -> None:
    child = nursery.child()
    step(child)
    kill(child)
    rows, unknown = semaphore_uses(Proc(), child, frozenset({NAME}))
    assert rows == ()
    assert unknown is not None
    assert unknown.table == "semaphores"
    assert ThreadIds(Proc(), child).of("Thread-1", HEAP) is None


@settings(max_examples=30)
@given(ident=addresses)
def test_thread_ids_of_a_process_that_is_gone(nursery: Nursery, ident: int) -> None:
    kill(child := nursery.child())
    assert ThreadIds(Proc(), child).of("MainThread", ident) == child
