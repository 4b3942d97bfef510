"""The reader of stacks beside py-spy: the same rows of real programs, under every interpreter of this machine."""

from __future__ import annotations

import ast
import contextlib
import ctypes
import json
import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpmon.codec import encode
from mpmon.model import PY_SPY, CallPlace, Frame, Stack
from mpmon.probes.calls import MAX_FRAMES, bare
from mpmon.probes.files import Proc
from mpmon.probes.interpreter import reader as reader_module
from mpmon.probes.interpreter.codes import Code, Codes
from mpmon.probes.interpreter.layouts import TABLE, Layout
from mpmon.probes.interpreter.lines import line_of, line_of_3_10
from mpmon.probes.interpreter.look import look_inside
from mpmon.probes.interpreter.pages import READS, TOO_MUCH
from mpmon.probes.interpreter.printing import real
from mpmon.probes.interpreter.reader import RAN_ON, Reading, StackReader, read_stacks
from mpmon.probes.interpreter.runtime import DEBUGS, NoInterpreter, Runtime, _runtime
from mpmon.probes.interpreter.walk import MOST_FRAMES, PythonThread, Walk
from mpmon.probes.maps import Area
from mpmon.probes.memory import Memory
from mpmon.probes.stacks import StackProbe
from mpmon.probes.syscalls import place_of
from tests.live.interpreters import VERSIONS, interpreters
from tests.patience import becomes
from tests.probes.garbage import GarbageMemory, maps_line
from tests.sleepers import sleeper

PROGRAMS = Path(__file__).parent / "programs"

MARKS = (
    "deep_recursion", "generator", "coroutine", "comprehension", "anonymous", "wrapper", "several_lines", "from_text",
    "key_of_sort", "callback_of_c", "Inner", "manager", "waiting_for_a_lock", "größe_漢字",
)  # fmt: skip
"""Functions that are found in one of the threads, whatever the version."""


class Job:
    """One of `programs/` under one interpreter, until the test is over."""

    def __init__(self, python: str, program: str) -> None:
        self._process = subprocess.Popen(
            [python, str(PROGRAMS / program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self._process.pid
        self.said = self._hear()

    def tell(self, line: str) -> str:
        """What it says to that."""
        assert self._process.stdin
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._hear()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()

    def _hear(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "it has ended"
        return line.strip()


def job(version: str, program: str) -> Job:
    python = interpreters().get(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on the path, under pyenv or under uv")
    return Job(python, program)


@pytest.fixture(scope="module", params=VERSIONS)
def standing(request: pytest.FixtureRequest) -> Iterator[Job]:
    with contextlib.closing(job(request.param, "standing.py")) as found:
        yield found


def until(ask: Callable[[], bool]) -> None:
    """A thread that said where it is about to stand needs a moment to come there."""
    assert becomes(ask)


def by_py_spy(pid: int) -> dict[int, Stack]:
    stacks, unknowns = StackProbe(Proc()).dump([pid], lambda: 1.0)
    assert not unknowns
    return {row.tid: row for row in stacks[pid]}


def by_us(pid: int) -> dict[int, Stack]:
    reading = StackReader(Proc(), pid).read(1.0)
    assert not reading.refused
    return {row.tid: row for row in reading.stacks}


def comparable(row: Stack) -> Stack:
    """Without digests, for which a reader takes what it has, without classes, which py-spy takes for numbers from 3.12 on, and
    without where it waits and what its variables lead to, of which py-spy knows nothing.
    """
    frames: list[Frame] = []
    for frame in row.frames:
        plain = {name: digest for name, digest in (frame.plain or {}).items() if name != "cls"}
        frames.append(msgspec.structs.replace(frame, arguments_digest=None, locals_digest=None, plain=plain, ends=()))
    return msgspec.structs.replace(row, frames=tuple(frames), active=False, reader=PY_SPY, place=None)


def assert_same(pid: int) -> dict[int, Stack]:
    """Both readers tell the same of threads that stand; what."""
    found: list[dict[int, Stack]] = []

    def agree() -> bool:
        found[:] = [{tid: comparable(row) for tid, row in rows.items()} for rows in (by_us(pid), by_py_spy(pid))]
        return found[0] == found[1] and all(row.exact for row in found[0].values())

    try:
        until(agree)
    except AssertionError:
        for tid in found[0].keys() | found[1].keys():
            assert found[0].get(tid) == found[1].get(tid)
        raise
    return found[0]


def functions(row: Stack) -> list[str]:
    return [frame.function.rpartition(".")[2] for frame in row.frames]


def test_threads_that_stand_in_calls_of_every_kind(standing: Job) -> None:
    rows = assert_same(standing.pid)
    names = {row.thread_name for row in rows.values()}
    assert {f"in {mark}" for mark in MARKS if mark.startswith(("deep", "gen", "wait", "grö"))} <= names
    assert set(MARKS) <= {function for row in rows.values() for function in functions(row)}
    deep = next(row for row in rows.values() if row.thread_name == "in deep_recursion")
    assert len(deep.frames) == MAX_FRAMES
    assert any(frame.plain and "wide" in frame.plain for frame in deep.frames)


def test_where_the_main_thread_stands_is_what_the_kernel_says(standing: Job) -> None:
    reader = StackReader(Proc(), standing.pid)
    until(lambda: all(row.exact for row in reader.read(1.0).stacks))
    places = {row.tid: row.place for row in reader.read(2.0).stacks}
    said = Path(f"/proc/{standing.pid}/task/{standing.pid}/syscall").read_bytes()
    assert places.pop(standing.pid) == place_of(said)
    assert set(places.values()) == {None}


@pytest.mark.parametrize(
    ("said", "place"),
    [
        (b"running\n", ("running", 0, 0)),
        (b"-1 0x7ffc 0x7f11\n", None),
        (b"", None),
        (b"9999 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffc 0x7f11\n", ("syscall 9999", 0x7FFC, 0x7F11)),
    ],
)
def test_where_a_thread_stands_by_what_the_kernel_prints(said: bytes, place: CallPlace | None) -> None:
    assert place_of(said) == place


def test_children_of_every_way_to_start_one(standing: Job) -> None:
    for pid in map(int, standing.said.split()):
        names = {row.thread_name for row in assert_same(pid).values()}
        assert {"MainThread", "in a child: coroutine"} <= names


def test_code_that_takes_the_place_of_other_code(standing: Job) -> None:
    """Each piece is gone before the next one comes, which is as long and so lies at the same place."""
    reader = StackReader(Proc(), standing.pid)
    for name in ("aaaaaa", "bbbbbb", "ababab", "bababa", "aabbaa", "aaaaaa", "zzzzzz"):
        standing.tell(name)
        line = 1 + len(name) + name.count("b")
        found: list[Frame] = []

        def stands(name: str = name, found: list[Frame] = found) -> bool:
            rows = reader.read(1.0).stacks
            main = next((row for row in rows if row.tid == standing.pid and row.exact), None)
            found[:] = [frame for frame in main.frames if frame.function == name] if main else []
            return bool(found)

        until(stands)
        assert [frame.line for frame in found] == [line + 1]


def test_what_has_not_run_is_not_read_again(standing: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = int(standing.said.split()[0])
    reader = StackReader(Proc(), pid)
    until(lambda: all(row.exact for row in reader.read(1.0).stacks))
    first = reader.read(2.0)
    monkeypatch.setattr(reader_module, "Memory", None)
    again = reader.read(3.0)
    assert [row.taken_at for row in again.stacks] == [3.0] * len(first.stacks)
    assert [comparable(msgspec.structs.replace(row, taken_at=2.0)) for row in again.stacks] == [
        comparable(row) for row in first.stacks
    ]


def test_a_reading_keeps_nothing_open(standing: Job) -> None:
    """Nobody tells the reader that its process has ended: of a job whose processes come and go it would keep more and more."""
    proc = Proc()
    before = len(os.listdir("/proc/self/fd"))
    until(lambda: all(row.exact for row in read_stacks(proc, standing.pid, 1.0).stacks))
    assert read_stacks(proc, standing.pid, 2.0).stacks
    assert len(os.listdir("/proc/self/fd")) == before


def test_only_the_thread_that_ran_is_read_again(standing: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = StackReader(Proc(), standing.pid)
    until(lambda: all(row.exact for row in reader.read(1.0).stacks) and bool(reader._clock))
    followed: list[int] = []
    follow = Walk.follow

    def note(self: Walk, threads: Sequence[PythonThread]) -> None:
        followed.extend(thread.native_id for thread in threads)
        follow(self, threads)

    monkeypatch.setattr(Walk, "follow", note)
    standing.tell("another")
    rows = {row.tid: row for row in reader.read(2.0).stacks}
    assert set(followed) == {standing.pid}
    assert {row.taken_at for row in rows.values()} == {2.0}
    assert len(rows) > len(MARKS)


def test_one_on_a_cpu_runs_between_two_ticks_too() -> None:
    """What it has run since the last tick of the kernel's clock is in no number yet."""

    class BetweenTicks(Proc):
        def clocks(self, pids: Collection[int]) -> list[int | None]:
            return [1] * len(pids)

    program = "import sys\ndef turns():\n    while True: pass\nprint('ready', flush=True)\nturns()"
    with sleeper(program) as child:
        reader = StackReader(BetweenTicks(), child.pid)
        for _ in range(50):
            (row,) = reader.read(1.0).stacks
            assert (row.exact, row.active) == (False, True)


@pytest.mark.parametrize("version", VERSIONS)
def test_threads_that_run(version: str) -> None:
    """What is told of one that runs is a stack it can be in, at lines its functions have."""
    tree = ast.parse((PROGRAMS / "running.py").read_text())
    spans = {
        node.name: range(node.lineno, (node.end_lineno or 0) + 1)
        for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
    }  # fmt: skip
    calls = {
        "calls": {"middle"}, "middle": {"leaf"}, "recursion": {"down"}, "down": {"down", "leaf"}, "generators": {"numbers"},
        "numbers": {"leaf"}, "sorting": {"<lambda>"}, "code": {"<module>"}, "<module>": {"made"},
    }  # fmt: skip
    with contextlib.closing(job(version, "running.py")) as found:
        reader = StackReader(Proc(), found.pid)
        said = 0
        for _ in range(100):
            reading = reader.read(1.0)
            assert not reading.refused
            assert RAN_ON in reading.problem or not reading.problem
            for row in reading.stacks:
                own = functions(row)[::-1]
                if row.thread_name == "MainThread":
                    continue
                own = own[own.index(row.thread_name) :]
                said += len(own)
                assert all(inner in calls.get(outer, ()) for outer, inner in pairwise(own)), own
                for frame in row.frames:
                    name = frame.function.rpartition(".")[2]
                    if frame.file.endswith("/running.py") and name in spans:
                        assert frame.line in spans[name], frame
        assert said > 200


def test_a_process_that_is_not_python_is_refused() -> None:
    with subprocess.Popen(["sleep", "1000"]) as child:
        try:
            assert "no interpreter" in StackReader(Proc(), child.pid).read(1.0).refused
        finally:
            child.kill()


def test_a_process_that_has_ended_is_gone() -> None:
    with sleeper() as child:
        reader = StackReader(Proc(), child.pid)
        assert reader.read(1.0).stacks
    assert reader.read(2.0) == Reading(gone=True)


def test_a_process_that_becomes_another_program() -> None:
    program = "import os, sys; print('ready', flush=True); sys.stdin.readline(); os.execv(sys.argv[1], sys.argv[1:])"
    other = "import sys\ndef after(): print('again', flush=True); sys.stdin.read()\nafter()"
    with ExitStack() as stack:
        found = interpreters()
        python = next((path for version, path in found.items() if path != sys.executable), sys.executable)
        child = stack.enter_context(sleeper(program, arguments=[python, "-c", other]))
        reader = StackReader(Proc(), child.pid)
        assert [functions(row) for row in reader.read(1.0).stacks] == [["<module>"]]
        assert child.stdin
        assert child.stdout
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "again\n"
        assert [functions(row) for row in reader.read(2.0).stacks] == [["after", "<module>"]]


def test_readings_of_a_process_are_kept_from_one_to_the_next() -> None:
    with sleeper() as child:
        proc = Proc()
        until(lambda: all(row.exact for row in read_stacks(proc, child.pid, 1.0).stacks))
        first, second = read_stacks(proc, child.pid, 2.0), read_stacks(proc, child.pid, 3.0)
    assert first.stacks[0].frames is second.stacks[0].frames


def test_a_debug_build_whose_layout_is_not_published_is_refused() -> None:
    area = Area(maps_line(0x10000, 0x20000, inode=1, path="/usr/lib/libpython3.10.so").strip())
    memory = GarbageMemory(1)
    addresses = {b"_PyRuntime": 0x10000}
    assert _runtime(memory, area, addresses).layout.version == (3, 10)  # pyright: ignore[reportArgumentType]
    with pytest.raises(NoInterpreter, match="debug build"):
        _runtime(memory, area, {**addresses, DEBUGS: 0x10000})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("version", VERSIONS)
def test_code_that_another_process_sent_is_of_the_file_it_was_written_in(version: str) -> None:
    calls: list[tuple[Frame, Frame]] = []

    def read() -> bool:
        """From that word to the wait for an answer it is a moment."""
        rows = zip(by_us(found.pid).values(), by_py_spy(found.pid).values(), strict=True)
        calls[:] = [(ours.frames[0], theirs.frames[0]) for ours, theirs in rows]
        return all(ours.line == theirs.line for ours, theirs in calls)

    with contextlib.closing(job(version, "sent.py")) as found:
        assert found.said == "stands"
        until(read)
    ((ours, theirs),) = calls
    assert (ours.function, ours.file, theirs.file) == ("wait_for_word", "/jobs/train.py", "<dynamic-code>")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_ends_that_the_variables_of_a_call_lead_to(version: str) -> None:
    with contextlib.closing(job(version, "ends.py")) as found:
        until(lambda: [row.function for row in deepest(found.pid).frames[:1]] == ["serve"])
        inner, method, outer, _ = deepest(found.pid).frames
    ends = [int(word) for word in found.said.split()]
    assert list(inner.ends) == ends[2:]
    assert method.own_ends == tuple(ends[:2])
    assert outer.ends[:3] == tuple(ends[2:5])


@pytest.mark.parametrize("version", VERSIONS)
def test_an_event_that_only_its_wait_refers_to(version: str) -> None:
    def unshared() -> dict[str, list[str]]:
        rows = by_us(found.pid).values()
        return {row.thread_name: [bare(frame.function) for frame in row.frames if frame.unshared] for row in rows}

    with contextlib.closing(job(version, "staying.py")) as found:
        until(lambda: unshared() == {"MainThread": ["wait"], "waits": []})


@pytest.mark.parametrize("version", VERSIONS)
def test_whether_the_feeder_thread_of_a_queue_sent_its_last_item_and_where_to(version: str) -> None:
    sent, dropped = {"obj": "memoryview"}, {"obj": "function"}
    with contextlib.closing(job(version, "feeding.py")) as found:
        told = list(zip((sent, dropped), ((int(word),) for word in found.said.split()), strict=True))
        until(lambda: [(frame.known, frame.ends) for frame in feeders(by_us(found.pid))] == told)
        until(lambda: [frame.known for frame in feeders(by_py_spy(found.pid))] == [sent, dropped])


def feeders(rows: dict[int, Stack]) -> list[Frame]:
    """Their calls, in the order in which they were started."""
    frames = [frame for tid in sorted(rows) for frame in rows[tid].frames]
    return [frame for frame in frames if frame.function.endswith("_feed")]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_deep_recursion_is_followed_to_its_end(version: str) -> None:
    with contextlib.closing(job(version, "recursing.py")) as found:
        found.tell("20000")
        # A thread that runs while it is read may show no calls.
        until(lambda: [row.function for row in deepest(found.pid).frames[:1]] == ["deeper"])
        row = deepest(found.pid)
        assert len(row.frames) == MAX_FRAMES
        assert [frame.function for frame in row.frames[-5:-3]] == ["deeper", "recursing"]
        findings = look_inside(Proc(), found.pid, {})
        assert [(lock.function, lock.depth) for lock in findings.locks if lock.holds] == [("recursing", 3)]
        assert findings.unknown is None


@pytest.mark.parametrize("version", VERSIONS)
def test_of_a_recursion_that_is_too_deep_the_innermost_calls_are_told(version: str) -> None:
    with contextlib.closing(job(version, "recursing.py")) as found:
        found.tell(str(MOST_FRAMES + 1000))
        # A thread that runs while it is read may show no calls.
        until(lambda: [row.function for row in deepest(found.pid).frames[:1]] == ["deeper"])
        reader = StackReader(Proc(), found.pid)
        rows = [max(reader.read(moment).stacks, key=lambda row: len(row.frames)) for moment in (1.0, 2.0)]
        assert rows[0].frames == rows[1].frames
        assert {frame.function for frame in rows[0].frames} == {"deeper"}
        assert len({row.tid for row in reader.read(3.0).stacks}) == 2
        unknown = look_inside(Proc(), found.pid, {}).unknown
        assert unknown
        assert unknown.reason == TOO_MUCH


def deepest(pid: int) -> Stack:
    """Of the thread with the most calls."""
    return max(by_us(pid).values(), key=lambda row: len(row.frames))


def test_a_thread_in_calls_of_two_interpreters_is_refused() -> None:
    here, there = (PythonThread(address, b"", 7, 7) for address in (0x1000, 0x2000))
    assert reader_module._in_calls([here, there]) is here
    there.is_whole = False
    assert reader_module._in_calls([here, there]) is there
    here.is_whole = False
    with pytest.raises(NoInterpreter, match="two interpreters"):
        reader_module._in_calls([here, there])


class Changed:
    """The memory of this very process, in which other bytes have come to lie at one place."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.at, self.text = 0, b""

    def pieces(self, wanted: Sequence[tuple[int, int]]) -> list[bytes]:
        found = self._memory.pieces(wanted)
        for place, (address, size) in enumerate(wanted):
            if address <= self.at < address + size and found[place]:
                begin = self.at - address
                found[place] = (found[place][:begin] + self.text + found[place][begin + len(self.text) :])[:size]
        return found


@pytest.mark.skipif(sys.version_info[:2] not in TABLE, reason="a Python whose layout is not known")
def test_what_lies_where_a_name_or_a_table_lay_is_read_anew() -> None:
    """The code object is the same to the last byte, but what it points to is not."""
    layout = TABLE[sys.version_info[:2]]
    names: dict[str, Callable[[], None]] = {}
    exec("def a_name_of_its_own():\n\n    pass", names)
    code = names["a_name_of_its_own"].__code__
    address = id(code)
    with Memory(Proc(), os.getpid()) as memory:
        changed, codes = Changed(memory), Codes(layout)

        def read() -> Code:
            return codes.read(changed, [address])[address]  # pyright: ignore[reportArgumentType]

        first = read()
        assert (first.function, first.locals) == ("a_name_of_its_own", ())
        assert read() is first
        assert Codes(layout).read(memory, [address])[address] is first
        changed.at, changed.text = id(code.co_name) + layout.text, b"b"
        assert read().function == "b_name_of_its_own"
        changed.at, changed.text = id(code.co_linetable) + 32, b"\xff" * len(code.co_linetable)
        second = read()
        assert second.function == "a_name_of_its_own"
        assert second is not first


# Lines

TABLES = """
import ast, asyncio, json, types, unittest.mock
def codes(code):
    yield code
    for item in code.co_consts:
        if isinstance(item, types.CodeType):
            yield from codes(item)
found = []
for module in (ast, asyncio.base_events, json.decoder, unittest.mock):
    with open(module.__file__) as file:
        for code in codes(compile(file.read(), module.__file__, "exec")):
            lines = {}
            for start, end, line in code.co_lines():
                lines.update(dict.fromkeys(range(start // 2, end // 2), line))
            found.append((code.co_linetable.hex(), code.co_firstlineno, [lines[at] for at in sorted(lines)]))
print(json.dumps(found))
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_the_line_of_every_instruction(version: str) -> None:
    python = interpreters().get(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on the path, under pyenv or under uv")
    said = subprocess.run([python, "-c", TABLES], capture_output=True, text=True, check=True).stdout
    decode = line_of_3_10 if version == "3.10" else line_of
    told = 0
    for table, first, lines in json.loads(said):
        for instruction, line in enumerate(lines):
            if line is not None:
                told += 1
                assert decode(bytes.fromhex(table), first, instruction) == line
    assert told > 10_000


@given(st.binary(max_size=200), st.integers(), st.integers(-(1 << 64), 1 << 64))
def test_a_table_of_lines_may_be_garbage(table: bytes, first: int, instruction: int) -> None:
    for decode in (line_of, line_of_3_10):
        assert isinstance(decode(table, first, instruction), int)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1"), (-0.0, "-0"), (2.5, "2.5"), (1e20, "100000000000000000000"), (1e-7, "0.0000001"), (float("nan"), "NaN"),
     (float("-inf"), "-inf")],
)  # fmt: skip
def test_a_float_is_printed_as_rust_does(value: float, text: str) -> None:
    assert real(value) == text


# Whatever may lie in memory

HEAP, HEAP_END = 0x10000, 0x50000
seeds = st.integers(0, 1 << 32)


class Damaged:
    """The memory of this very process, with words that are wrong here and there."""

    def __init__(self, memory: Memory, seed: int, share: float) -> None:
        self._memory, self._random, self._share = memory, random.Random(seed), share

    def read(self, address: int, size: int) -> bytes | None:
        text = self._memory.read(address, size)
        return text if text is None else self._damaged(text) or None

    def pieces(self, wanted: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self._damaged(text) for text in self._memory.pieces(wanted)]

    def unpack(self, fields: str, address: int) -> tuple[int, ...] | None:
        text = self.read(address, struct.calcsize("=" + fields))
        return None if text is None else struct.unpack("=" + fields, text)

    def _damaged(self, text: bytes) -> bytes:
        if not text or self._random.random() > self._share:
            return text
        at = self._random.randrange(len(text))
        spoilt = text[:at] + self._random.randbytes(8) + text[at + 8 :]
        return self._random.choice([b"", spoilt[: len(text)], text[:-1] + b"\x7f", bytes(len(text))])


def read_from(memory: object, runtime: Runtime) -> Reading:
    """One reading of this process from another memory, twice, so that some is known."""
    reader = StackReader(Proc(), os.getpid())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader_module, "Memory", lambda _proc, _pid: contextlib.nullcontext(memory))
        patch.setattr(reader_module, "runtime_of", lambda *_: runtime)
        reader.read(1.0)
        reading = reader.read(2.0)
    assert all(encode(row) for row in reading.stacks)
    assert sum(len(row.frames) for row in reading.stacks) <= 64 * MAX_FRAMES
    return reading


@settings(max_examples=60)
@given(seeds, st.sampled_from(sorted(TABLE)), st.sampled_from([0.0, 0.2]), st.none() | st.integers(0, 60))
def test_an_interpreter_made_of_garbage(
    seed: int, version: tuple[int, int], fails: float, ends_after: int | None
) -> None:
    most = 2 * READS + 40 * MOST_FRAMES
    memory = GarbageMemory(
        seed, [(HEAP, HEAP_END)], fails=fails, ends_after=ends_after, most_reads=most, most_bytes=1 << 32
    )
    assert read_from(memory, Runtime(HEAP, TABLE[version])).refused


@pytest.mark.skipif(sys.version_info[:2] not in TABLE, reason="a Python whose layout is not known")
@settings(max_examples=150, deadline=None)
@given(seeds, st.sampled_from([0.002, 0.01, 0.1, 0.5]))
def test_an_interpreter_that_is_damaged(seed: int, share: float) -> None:
    proc, pid = Proc(), os.getpid()
    with Memory(proc, pid) as memory:
        runtime = reader_module.runtime_of(proc, pid, memory)
        reading = read_from(Damaged(memory, seed, share), runtime)
    assert reading.refused or reading.stacks or reading.problem


@settings(max_examples=60)
@given(seeds, st.sampled_from(sorted(TABLE)))
def test_code_objects_and_chains_of_garbage(seed: int, version: tuple[int, int]) -> None:
    """Past the checks of what leads there."""
    layout: Layout = TABLE[version]
    memory = GarbageMemory(seed, [(HEAP, HEAP_END)], most_reads=1 << 20, most_bytes=1 << 34)
    walk = Walk(memory, Runtime(HEAP, layout))  # pyright: ignore[reportArgumentType]
    state = random.Random(seed).choice([memory.read(HEAP + 8 * place, 400) or b"" for place in range(64)])
    threads = [PythonThread(HEAP, state, 1, 1) for _ in range(3)]
    walk.follow(threads)
    assert all(len(thread.links) <= MOST_FRAMES for thread in threads)
    codes = Codes(layout)
    codes._is_code = lambda _memory, kind: True  # type: ignore[method-assign]
    addresses = dict.fromkeys([HEAP + 8 * place for place in range(200)] + [link.code for link in threads[0].links])
    for _ in range(2):
        found = codes.read(memory, addresses)  # pyright: ignore[reportArgumentType]
        assert all(isinstance(code.line(HEAP), int) and len(code.function) <= 4096 for code in found.values())


def test_a_chain_that_goes_in_circles_ends() -> None:
    layout = TABLE[3, 12]
    frame = bytearray(layout.local_variables)
    struct.pack_into("=Q", frame, layout.previous, HEAP + 0x100)
    planted = {HEAP + 0x100: bytes(frame), HEAP: struct.pack("=Q", HEAP + 0x100)}
    memory = GarbageMemory(1, [(HEAP, HEAP_END)], planted=planted)
    state = bytearray(400)
    struct.pack_into("=Q", state, layout.frame, HEAP)
    thread = PythonThread(HEAP, bytes(state), 1, 1)
    Walk(memory, Runtime(HEAP, layout)).follow([thread])  # pyright: ignore[reportArgumentType]
    assert (len(thread.links), thread.is_whole) == (1, False)


def test_pieces_of_memory_that_cannot_be_read_leave_the_others() -> None:
    own = bytearray(b"abcdefgh" * 4)
    at = ctypes.addressof(ctypes.c_char.from_buffer(own))
    with Memory(Proc(), os.getpid()) as memory:
        wanted = [(at, 3), (0, 8), (8, 8), (at + 3, 5), (at, 0), (at, -1), (1 << 63, 8), (at, 1 << 40), (at + 8, 8)]
        assert memory.pieces(wanted) == [b"abc", b"", b"", b"defgh", b"", b"", b"", b"", b"abcdefgh"]
        assert memory.pieces([(at, 1)] * 3000) == [b"a"] * 3000
        assert memory.pieces([]) == []
