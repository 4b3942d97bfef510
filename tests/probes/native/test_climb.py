"""Threads of C programs that sleep in awkward frames, built in the ways in which compilers and distributions build."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

import pytest

from mpmon.model import NativeStack
from mpmon.probes import door, maps
from mpmon.probes.files import Proc
from mpmon.probes.native import look, native_stacks, space, standing
from mpmon.probes.native.image import known_image
from mpmon.probes.native.outcomes import (
    BOUNDED,
    FRAME_POINTER,
    LOST,
    MAY_BE,
    MOVED,
    NAMES_IT,
    PROLOGUE,
    REFUSED,
    REGISTERS,
    RUNNING,
    SEARCH,
    START,
)
from mpmon.probes.native.standing import NotStanding
from tests.probes.native import looks
from tests.probes.native.looks import assert_same_as_gdb, functions, only_x86_64, process, python

pytestmark = [only_x86_64, pytest.mark.live]

SOURCE = Path(__file__).with_name("awkward.c")
NO_FRAMES = ("-fno-asynchronous-unwind-tables", "-fno-unwind-tables")

CHAINS = {
    "bottom": ["bottom", "begin"],
    "bare": ["bare", "begin"],
    "grown_bare": ["bare", "grown", "grown_bare", "begin"],
    "aligned_bare": ["bare", "aligned", "aligned_bare", "begin"],
    "aligned_grown": ["bare", "grown", "grown_bare", "aligned", "aligned_grown", "begin"],
    "arguments": ["bottom", "many", "arguments", "begin"],
    "variadic": ["bottom", "variable", "variadic", "begin"],
    "recursive": ["bottom", "again", "recursive", "begin"],
    "stale": ["bare", "over_rubbish", "stale", "begin"],
    "calls_tail": ["bottom", "calls_tail", "begin"],
    "sorting": ["bottom", "compare", "sorting", "begin"],
}
"""What the source says of each thread when it is built with -O2; a function that calls itself stands there once."""

Build = Callable[..., Path]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Makes the program, with these options of the compiler."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no gcc to build a program with")
    folder = tmp_path_factory.mktemp("awkward")
    made: dict[Sequence[str], Path] = {}

    def build(*options: str) -> Path:
        if options not in made:
            made[options] = folder / f"program{len(made)}"
            command = [compiler, *options, "-w", "-pthread", str(SOURCE), "-o", str(made[options])]
            if subprocess.run(command, capture_output=True, check=False).returncode:
                pytest.skip(f"this compiler cannot build with {' '.join(options)}")
        return made[options]

    return build


def chains(pid: int, program: str) -> dict[str, list[str]]:
    """The functions of one file that each thread is in, by the thread's name."""
    rows = looks.look(pid, threads=len(CHAINS) + 2)
    named = {Proc().text(pid, "task", row.tid, "comm").strip(): functions(row, program) for row in rows}
    return {name: [function for function, _ in groupby(found)] for name, found in named.items() if name in CHAINS}


def hows(rows: Sequence[NativeStack]) -> set[str]:
    return {frame.how for row in rows for frame in row.frames}


@pytest.mark.parametrize(
    "options",
    [
        ("-O2",),
        ("-O0",),
        ("-O2", "-fno-omit-frame-pointer"),
        ("-O2", "-fcf-protection=full", "-fno-plt"),
        ("-O2", "-s"),
        ("-O2", "-static-pie"),
    ],
    ids=" ".join,
)
def test_every_frame_is_the_one_that_gdb_finds(build: Build, options: tuple[str, ...]) -> None:
    with process([str(build(*options))]) as pid:
        rows = looks.look(pid, threads=len(CHAINS) + 2)
        assert [(row.end, row.why) for row in rows] == [(START, None)] * len(rows)
        assert all(row.frames[0].how == REGISTERS for row in rows)
        assert_same_as_gdb(pid)


def test_the_functions_are_those_of_the_source(build: Build) -> None:
    with process([str(build("-O2"))]) as pid:
        assert chains(pid, "program") == CHAINS


def test_a_frame_that_is_not_told_says_how_it_was_found_and_what_proves_it(build: Build) -> None:
    with process([str(build("-O0"))]) as pid:
        rows = looks.look(pid, threads=len(CHAINS) + 2)
    assert PROLOGUE in hows(rows)
    doubtful = [frame for row in rows for frame in row.frames if frame.how in (PROLOGUE, SEARCH)]
    assert all(frame.proof is not None and frame.proof >= MAY_BE for frame in doubtful)
    assert NAMES_IT in {frame.proof for frame in doubtful}
    assert all(frame.is_certain == (frame.how != SEARCH) for frame in doubtful)


def test_code_without_frame_information_is_climbed_by_its_calls(build: Build) -> None:
    with process([str(build("-O2", *NO_FRAMES))]) as pid:
        assert chains(pid, "program") == CHAINS
        rows = looks.look(pid)
    assert SEARCH in hows(rows)


def test_code_without_frame_information_is_climbed_by_its_frame_pointers(build: Build) -> None:
    with process([str(build("-O2", "-fno-omit-frame-pointer", *NO_FRAMES))]) as pid:
        assert chains(pid, "program") == CHAINS
        rows = looks.look(pid)
    assert FRAME_POINTER in hows(rows)


def test_a_stripped_program_has_places_and_no_names(build: Build) -> None:
    with process([str(build("-O2", "-s", "-Wl,--build-id=sha1"))]) as pid:
        rows = looks.look(pid, threads=len(CHAINS) + 2)
    own = [frame for row in rows for frame in row.frames if "program" in (frame.library or "")]
    assert own
    assert {frame.function for frame in own} <= {None, "_start", "main"}
    assert {len(frame.build_id or "") for frame in own} == {40}
    assert all(0 < frame.offset < 1 << 20 for frame in own)


# Files that are not there any more


@contextmanager
def without_map_files(monkeypatch: pytest.MonkeyPatch):
    """As for a user who may not follow the links of map_files."""

    def refused(link: str, _expected: door.Expected) -> None:
        raise PermissionError(1, "Operation not permitted", link)

    with monkeypatch.context() as patch:
        patch.setattr(space, "opened_behind", refused)
        yield


@pytest.fixture
def copied(build: Build, tmp_path: Path) -> Path:
    return Path(shutil.copy(build("-O2"), tmp_path / "program"))


def test_a_program_that_was_deleted_keeps_its_names(copied: Path) -> None:
    with process([str(copied)]) as pid:
        copied.unlink()
        try:
            os.stat(next(Path(f"/proc/{pid}/map_files").iterdir()))
        except PermissionError:
            pytest.skip("/proc/PID/map_files cannot be read: it takes CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE")
        assert chains(pid, "program") == CHAINS


@pytest.mark.parametrize("instead", ["nothing", "a named pipe", "another file"])
def test_a_program_that_cannot_be_had_is_read_from_memory(
    copied: Path, instead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with process([str(copied)]) as pid, without_map_files(monkeypatch):
        whole = [
            [(frame.offset, frame.how) for frame in row.frames] for row in looks.look(pid, threads=len(CHAINS) + 2)
        ]
        copied.unlink()
        if instead == "a named pipe":
            os.mkfifo(copied)
        elif instead == "another file":
            copied.write_bytes(b"\x7fELF" + bytes(4000))
        rows = looks.look(pid)
        assert [[(frame.offset, frame.how) for frame in row.frames] for row in rows] == whole
        own = [frame for row in rows for frame in row.frames if "program" in (frame.library or "")]
        assert {frame.function for frame in own} == {None}, "names are not in memory"


def test_a_file_that_was_overwritten_is_read_anew(copied: Path) -> None:
    def image() -> object:
        with door.opened(door.Place(str(copied)), door.FILE) as descriptor:
            return known_image(space.program(lambda: descriptor, os.fstat(descriptor)))

    first, before = image(), copied.stat()
    assert image() is first
    content = copied.read_bytes()
    copied.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(copied, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert image() is not first


# Threads of which nothing is said


SLEEPS = "import time; print('ready', flush=True); time.sleep(1e6)"


def test_a_thread_that_runs_is_not_read() -> None:
    with python("print('ready', flush=True)\nwhile True: pass") as pid:
        found = {native_stacks(Proc(), pid, [pid], 1.0)[0].end for _ in range(20)}
    assert RUNNING in found or MOVED in found
    assert found <= {RUNNING, MOVED}, "it never sleeps"


def test_a_thread_that_ran_meanwhile_is_read_again_and_then_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter(range(100))
    with python(SLEEPS) as pid:
        looks.look(pid)
        monkeypatch.setattr(look.Counters, "now", lambda _: next(numbers))
        (row,) = native_stacks(Proc(), pid, [pid], 1.0)
    assert (row.end, row.frames) == (MOVED, ())
    numbers = iter([1, 2, 3, 3])
    monkeypatch.setattr(look, "standing", lambda *_: standing.Standing(0x1000, 0x1000))
    with python(SLEEPS) as pid:
        (row,) = native_stacks(Proc(), pid, [pid], 1.0)
    assert row.end == LOST, "the second time it stood still"


def test_a_thread_that_is_gone_and_one_that_is_not_told_are_refused() -> None:
    with python(SLEEPS) as pid:
        (row,) = native_stacks(Proc(), pid, [1 << 30], 1.0)
    assert (row.end, row.frames) == (REFUSED, ())
    assert "ended" in (row.why or "")


@pytest.mark.parametrize("text", ["", "7 0x1", "running", "-1 0x7ffc x"])
def test_what_the_kernel_says_in_another_form_is_refused(text: str, tmp_path: Path) -> None:
    folder = tmp_path / "7/task/7"
    folder.mkdir(parents=True)
    (folder / "syscall").write_text(text)
    with pytest.raises(NotStanding) as problem:
        standing.standing(Proc(tmp_path), 7, 7)
    assert problem.value.end == (RUNNING if text == "running" else REFUSED)


def test_another_kind_of_processor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look, "machine_of", lambda: None)
    (row,) = native_stacks(Proc(), os.getpid(), [os.getpid()], 1.0)
    assert row.end == REFUSED
    assert "processor" in (row.why or "")


def test_a_process_that_is_gone_is_an_error() -> None:
    with pytest.raises(OSError, match="No such"):
        native_stacks(Proc(), (1 << 22) + 1, [1], 1.0)


def test_threads_beyond_the_bound_are_named_and_not_read(monkeypatch: pytest.MonkeyPatch, build: Build) -> None:
    monkeypatch.setattr(look, "MOST_THREADS", 2)
    with process([str(build("-O2"))]) as pid:
        rows = native_stacks(Proc(), pid, Proc().tids(pid), 1.0)
    assert [row.end for row in rows[2:]] == [BOUNDED] * (len(rows) - 2)


DEEP = """
import sys, threading, time

def deep(n):
    if n:
        sorted([1], key=lambda _: deep(n - 1))
    print("ready", flush=True)
    time.sleep(1e6)

sys.setrecursionlimit(10**5)
threading.stack_size(1 << 27)
thread = threading.Thread(target=deep, args=(300,))
thread.start()
thread.join()
"""


def test_a_stack_that_is_too_deep_keeps_its_inner_frames() -> None:
    with python(DEEP) as pid:
        rows = looks.look(pid, threads=2)
    deep = next(row for row in rows if row.tid != pid)
    assert (deep.end, len(deep.frames)) == (BOUNDED, 400)


# What is not done again


def test_of_files_that_are_known_nothing_is_opened_or_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with python(SLEEPS) as pid:
        first = looks.look(pid)
        monkeypatch.setattr(door, "open_found", lambda *_: pytest.fail("a file was opened"))
        again = native_stacks(Proc(), pid, [row.tid for row in first], 1.0)
    assert [row.frames for row in again] == [row.frames for row in first]
    assert again[0].frames[-1].function


def test_of_the_mappings_of_a_process_those_are_taken_apart_that_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []
    real = maps.Area.__init__

    def noting(self: maps.Area, line: str) -> None:
        taken.append(line)
        real(self, line)

    with python(SLEEPS) as pid:
        looks.look(pid)
        monkeypatch.setattr(maps.Area, "__init__", noting)
        assert native_stacks(Proc(), pid, [pid], 1.0)[0].end == "start"
        lines = Proc().text(pid, "maps").splitlines()
    assert 0 < len(taken) == len(set(taken)) < len(lines)
