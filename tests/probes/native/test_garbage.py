"""Files, stacks and symbols that a job has made up: whatever they hold, a look ends, in bounds, with rows and reasons."""

from __future__ import annotations

import lzma
import os
import re
import struct
from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpmon.codec import encode
from mpmon.probes import elf
from mpmon.probes.elf import BadElf
from mpmon.probes.files import Proc
from mpmon.probes.maps import Area, Layout, areas
from mpmon.probes.native import effort, image, look
from mpmon.probes.native.climb import Climb, Climber
from mpmon.probes.native.effort import Effort
from mpmon.probes.native.image import Bytes, Library, image_of
from mpmon.probes.native.machines import AARCH64, X86_64
from mpmon.probes.native.outcomes import BOUNDED, LOST, REGISTERS, START
from mpmon.probes.native.space import Space
from mpmon.probes.native.standing import Standing
from tests.probes.garbage import GarbageMemory, maps_line
from tests.probes.native.looks import only_x86_64

STACK, STACK_END = 0x7F0000000000, 0x7F0000040000
CODE, CODE_END = 0x400000, 0x420000

seeds = st.integers(0, 1 << 32)
words = st.integers(0, (1 << 64) - 1)


@cache
def program() -> bytes:
    """A real one with symbols and frame information: this Python's library of time, or the C library."""
    found = next(area for area in areas(Proc(), os.getpid()) if "libc.so" in area.path or "libc-" in area.path)
    with open(found.path, "rb") as file:
        return file.read()


@cache
def functions() -> list[int]:
    """Where some functions of it begin."""
    library = Library(image_of(Bytes(program())), Bytes(program()))
    text = next(segment for segment in library.image.loads if segment.flags & elf.EXECUTABLE)
    found = (library.rules(text.address + at) for at in range(0, text.size, 1 << 13))
    return sorted({rules.function.start for rules in found if rules})


@cache
def returns() -> list[int]:
    """Where some calls in it return to."""
    text = next(segment for segment in image_of(Bytes(program())).loads if segment.flags & elf.EXECUTABLE)
    code = program()[text.offset : text.offset + text.size]
    calls = list(re.finditer(rb"\xe8(?=(.{4}))", code, re.DOTALL))
    inside = [call.end() + 4 for call in calls if 0 < call.end() + 4 + struct.unpack("<i", call[1])[0] < text.size]
    return [text.address + at for at in inside[:: len(inside) // 60]]


class Counted(Bytes):
    """A file of which it is noted how much is read."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.bytes = 0

    def part(self, at: int, size: int) -> bytes:
        found = super().part(at, size)
        self.bytes += len(found)
        return found


def changed(content: bytes, changes: Sequence[tuple[int, bytes]], end: int | None) -> bytes:
    found = bytearray(content)
    for at, piece in changes:
        found[at : at + len(piece)] = piece
    return bytes(found[:end])


def ask_all(text: Counted) -> None:
    """Everything that is ever asked of a file."""
    try:
        library = Library(image_of(text), text)
    except BadElf:
        return
    for address in (*functions()[:20], 0, 1 << 63, (1 << 64) - 1):
        library.rules(address)
    library.find_names(functions()[:20])
    library.extent(functions()[3])
    library.bias(0x7F0000000000, 0x28000)
    assert set(functions()[:20]) <= library.image.names.keys()
    assert text.bytes < 16 * len(program())


def test_a_real_file_answers() -> None:
    text = Counted(program())
    library = Library(image_of(text), text)
    assert library.image.build_id is None or len(library.image.build_id) == 40
    library.find_names(functions())
    assert sum(bool(library.image.names[start]) for start in functions()) > len(functions()) // 4
    ask_all(text)


@given(st.data())
def test_a_file_may_be_changed_or_cut_anywhere(data: st.DataObject) -> None:
    head = st.integers(0, 1024)
    tail = st.integers(len(program()) - 8192, len(program()) - 8)
    piece = st.binary(min_size=1, max_size=8) | words.map(struct.Struct("<Q").pack)
    changes = data.draw(st.lists(st.tuples(head | tail, piece), max_size=12))
    ask_all(Counted(changed(program(), changes, data.draw(st.none() | st.integers(0, len(program()))))))


@given(st.binary(max_size=2000))
def test_a_file_may_be_garbage(content: bytes) -> None:
    for text in (content, b"\x7fELF\x02\x01" + content):
        ask_all(Counted(text))


def test_names_are_found_in_symbols_that_were_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = with_symbols({0x1000: b"packed"})
    assert named(with_section(b".gnu_debugdata", lzma.compress(inner)), 0x1000) == "packed"
    assert named(with_section(b".gnu_debugdata", lzma.compress(inner)[:60]), 0x1000) is None
    assert named(with_section(b".gnu_debugdata", b"no xz"), 0x1000) is None
    bomb = lzma.compress(inner + bytes(1 << 22))
    monkeypatch.setattr(image, "UNPACKED_LIMIT", 1 << 16)
    library = Library(
        image_of(Bytes(with_section(b".gnu_debugdata", bomb))), Bytes(with_section(b".gnu_debugdata", bomb))
    )
    library.find_names([0x1000])
    assert len(library.image.unpacked or b"") <= 1 << 16


def test_of_several_names_the_global_and_the_short_one_is_taken() -> None:
    content = with_symbols({0x1000: b"memcpy_unaligned"}, {0x1000: b"memcpy"}, {0x1000: b"m"}, kinds=(0x12, 0x12, 0x02))
    assert named(content, 0x1000) == "memcpy"
    assert named(content, 0x1001) is None, "the nearest one before would be a lie"


def named(content: bytes, start: int) -> str | None:
    library = Library(image_of(Bytes(content)), Bytes(content))
    library.find_names([start])
    return library.image.names[start]


def with_symbols(*symbols: dict[int, bytes], kinds: Sequence[int] = (0x12, 0x12, 0x12)) -> bytes:
    """A file with a table of symbols and nothing else."""
    names, rows = b"\0", b""
    for symbol, kind in zip(symbols, kinds, strict=False):
        for value, name in symbol.items():
            rows += elf.SYMBOL.pack(len(names), kind, 0, 1, value, 16)
            names += name + b"\0"
    strings, table = 64, 64 + len(names)
    return file(names + rows, [(2, table, len(rows), 2), (3, strings, len(names), 0)])


def with_section(name: bytes, content: bytes) -> bytes:
    names = b"\0" + name + b"\0"
    return file(names + content, [(1, 64 + len(names), len(content), 0), (3, 64, len(names), 0)], names=2)


def file(content: bytes, sections: Sequence[tuple[int, int, int, int]], names: int = 0) -> bytes:
    """Kind, offset, size and link of each section; one without content comes before all."""
    rows = bytes(64) + b"".join(
        struct.pack("<IIQQQQIIQQ", 1, kind, 0, 0, offset, size, link, 0, 1, 0) for kind, offset, size, link in sections
    )
    head = struct.pack(
        "<6s10xHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01",
        3,
        62,
        1,
        0,
        0,
        64 + len(content),
        0,
        64,
        56,
        0,
        64,
        len(sections) + 1,
        names,
    )
    return head + content + rows


# Stacks


def climb(
    memory: object, everything: list[str], where: Standing, machine: object = X86_64, work: Effort | None = None
) -> Climb:
    with Space(Proc(), os.getpid(), memory, Layout(everything), machine) as space:  # type: ignore[arg-type]
        return Climber(space, work or Effort()).climb(where)


def check(found: Climb) -> None:
    assert found.steps[0].how == REGISTERS
    assert found.end in (START, LOST, BOUNDED)
    assert found.why or found.end == START
    assert encode(look.NativeStack(pid=1, tid=1, taken_at=0.0, end=found.end, why=found.why))


@only_x86_64
@settings(max_examples=15)
@given(seeds, st.sampled_from([0.0, 0.2]), words, words)
def test_a_stack_of_garbage_above_a_real_library(seed: int, fails: float, pointer: int, counter: int) -> None:
    base = libc().start - libc().offset
    everything = sorted([*lines_of_libc(), maps_line(STACK, STACK_END).strip()], key=lambda line: Area(line).start)
    memory = GarbageMemory(
        seed, [(STACK, STACK_END)], words=[base + at for at in returns()] * 4, fails=fails, most_reads=200_000
    )
    inside = Standing(STACK + pointer % (STACK_END - STACK), base + functions()[counter % len(functions())])
    for where in (inside, Standing(pointer, counter), Standing(STACK + 8, base + counter % 0x200000)):
        check(climb(memory, everything, where, work=Effort(most=3000)))


def lines_of_libc() -> list[str]:
    lines = Proc().text(os.getpid(), "maps", limit=1 << 24).splitlines()
    return [line for line in lines if line.endswith(" " + libc().path)]


def libc() -> Area:
    found = (area for area in areas(Proc(), os.getpid()) if "x" in area.rights)
    return next(area for area in found if "libc.so" in area.path or "libc-" in area.path)


@given(seeds, st.sampled_from([0.0, 0.2]), words, words)
def test_code_of_garbage(seed: int, fails: float, pointer: int, counter: int) -> None:
    """Code that lies in no file: most of it looks like calls."""
    calls = [
        int.from_bytes(b"\xe8\x00\x01\x00\x00\xff\xd0\x90", "little"),
        int.from_bytes(b"\xff\xd0\xff\x15\0\0\0\0", "little"),
    ]
    everything = [maps_line(CODE, CODE_END, rights="r-xp").strip(), maps_line(STACK, STACK_END).strip()]
    memory = GarbageMemory(
        seed,
        [(STACK, STACK_END), (CODE, CODE_END)],
        words=calls * 20,
        fails=fails,
        most_reads=400_000,
        most_bytes=1 << 30,
    )
    inside = Standing(STACK + pointer % (STACK_END - STACK), CODE + counter % (CODE_END - CODE))
    for where in (inside, Standing(pointer, counter)):
        check(climb(memory, everything, where, work=Effort(most=10_000)))


def test_work_ends_when_as_much_was_done_as_is_allowed() -> None:
    """A stack of addresses that might be anything: each word is tried, none proves anything."""
    everything = [maps_line(CODE, CODE_END, rights="r-xp").strip(), maps_line(STACK, STACK_END).strip()]
    returns = [CODE + 8 * number for number in range(1, 4000)]
    memory = GarbageMemory(
        1, [(STACK, STACK_END), (CODE, CODE_END)], words=returns, most_reads=1 << 30, most_bytes=1 << 40
    )
    found = climb(memory, everything, Standing(STACK, CODE + 16), work=Effort(most=500, together=800))
    assert (found.end, found.why) == (BOUNDED, "too much work")
    assert memory.reads < 5 * 500


def test_threads_share_what_may_be_done() -> None:
    work = Effort(most=10, together=25)
    for allowed in (10, 10, 5, 0):
        work.begin()
        work.take(allowed)
        with pytest.raises(effort.Spent):
            work.take()
    work = Effort(most=10, together=12)
    work.begin()
    work.take(3)
    work.begin()
    work.take(9)


@given(words, words)
def test_a_process_without_any_memory(pointer: int, counter: int) -> None:
    memory = GarbageMemory(1, [])
    for machine in (X86_64, AARCH64):
        check(climb(memory, [], Standing(pointer, counter), machine))


@only_x86_64
def test_a_library_for_another_kind_of_processor_is_not_believed() -> None:
    found = climb(GarbageMemory(1, []), lines_of_libc(), Standing(STACK, libc().start + 64), AARCH64)
    assert (found.end, len(found.steps)) == (LOST, 1)
    assert "another kind of processor" in (found.why or "")
