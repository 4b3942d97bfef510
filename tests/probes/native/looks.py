"""Real processes whose threads sleep, looked at by us and by gdb."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from mpmon.model import NativeStack
from mpmon.probes.files import Proc
from mpmon.probes.maps import layout
from mpmon.probes.memory import Memory
from mpmon.probes.native import native_stacks
from mpmon.probes.native.climb import Climb, Climber
from mpmon.probes.native.effort import Effort
from mpmon.probes.native.machines import X86_64
from mpmon.probes.native.outcomes import MOVED, RUNNING
from mpmon.probes.native.space import Space
from mpmon.probes.native.standing import NotStanding, standing

TRUTH = Path(__file__).with_name("truth.py")

only_x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="frames are searched for on x86-64 only")


@contextmanager
def process(command: Sequence[str], **more: object) -> Iterator[int]:
    """The pid of a program that has said it is ready; its process group is gone afterwards."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, **more)  # type: ignore[call-overload]
    try:
        assert child.stdout is not None
        while (line := child.stdout.readline()) != "ready\n":
            assert line, "it ended before it was ready"
        yield child.pid
    finally:
        os.killpg(child.pid, 9)
        child.communicate()


@contextmanager
def python(program: str, *arguments: str, interpreter: str = sys.executable) -> Iterator[int]:
    """The same of a program in Python."""
    with process([interpreter, "-c", program, *arguments]) as pid:
        yield pid


def look(pid: int, *, threads: int | None = None) -> tuple[NativeStack, ...]:
    """The stacks of a process, once so many threads sleep for good: who said that it is about to sleep may not yet."""
    proc = Proc()
    rows: tuple[NativeStack, ...] = ()
    for _ in range(3000):
        tids = proc.tids(pid)
        before = [proc.read(pid, "task", tid, "schedstat") for tid in tids]
        rows = native_stacks(proc, pid, tids, time.time())
        time.sleep(0.005)
        still = proc.tids(pid) == tids and before == [proc.read(pid, "task", tid, "schedstat") for tid in tids]
        enough = threads is None or len(rows) >= threads
        if still and enough and not any(row.end in (RUNNING, MOVED) for row in rows):
            return rows
    raise AssertionError(rows)


def functions(row: NativeStack, library: str = "") -> list[str]:
    """The names of its frames that have one, in one file."""
    return [frame.name for frame in row.frames if frame.name and library in (frame.library or "")]


def climbs(pid: int) -> dict[int, Climb]:
    """The frames of all threads as they are found, before they get names, once all threads sleep."""
    proc = Proc()
    with Memory(proc, pid) as memory, Space(proc, pid, memory, layout(proc, pid), X86_64) as space:
        climber = Climber(space, Effort())
        for _ in range(3000):
            try:
                return {tid: climber.climb(standing(proc, pid, tid)) for tid in proc.tids(pid)}
            except NotStanding:
                time.sleep(0.005)
    raise AssertionError(f"a thread of {pid} runs on and on")


def truth(pid: int) -> dict[int, list[tuple[int, int]]]:
    """What gdb says: program counter and stack pointer of each frame, by thread. It stops the process meanwhile."""
    debugger = shutil.which("gdb")
    if debugger is None:
        pytest.skip("gdb is not installed: nobody to compare with")
    command = [debugger, "-nx", "-batch", "-p", str(pid), "-x", str(TRUTH)]
    said = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "DEBUGINFOD_URLS": ""}
    )
    lines = [line for line in said.stdout.splitlines() if line.startswith("TRUTH")]
    if not lines:
        pytest.skip(f"gdb cannot attach: {said.stderr.strip().splitlines()[-1:]}")
    return {int(tid): [tuple(frame) for frame in frames] for tid, frames in json.loads(lines[0][5:]).items()}


def assert_same_as_gdb(pid: int) -> None:
    """All frames of all threads: of those that stood in the same place before gdb and after it, if any moved meanwhile."""
    before, said, after = places(pid), truth(pid), places(pid)
    stayed = {tid for tid in before if before[tid] == after.get(tid)}
    assert len(stayed) * 2 > len(before)
    assert {tid: before[tid] for tid in stayed} == {tid: said.get(tid) for tid in stayed}


def places(pid: int) -> dict[int, list[tuple[int, int]]]:
    """Program counter and stack pointer of each frame, by thread."""
    return {
        tid: [(step.program_counter, step.stack_pointer) for step in climb.steps] for tid, climb in climbs(pid).items()
    }
