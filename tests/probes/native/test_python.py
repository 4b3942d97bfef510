"""Threads of Python and of torch that sleep."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from mpmon.diagnosis.stacks.merging import merged
from mpmon.model import NativeFrame, NativeStack, Stack
from mpmon.probes.aside import Aside
from mpmon.probes.files import Proc
from mpmon.probes.interpreter.reader import StackReader
from mpmon.probes.native import native_stacks
from mpmon.probes.native.outcomes import START
from mpmon.probes.stacks import StackProbe
from tests.live.interpreters import VERSIONS, interpreters
from tests.probes.native.looks import assert_same_as_gdb, functions, look, only_x86_64, process, python

pytestmark = [only_x86_64, pytest.mark.live]

THREADS = """
import ctypes, os, queue, select, socket, threading, time

def begin(*work):
    threading.Thread(target=work[0], args=work[1:], daemon=True, name=work[0].__name__).start()

def lock():
    held = threading.Lock()
    held.acquire()
    held.acquire()

def timed():
    held = threading.Lock()
    held.acquire()
    held.acquire(timeout=1e6)

def event():
    threading.Event().wait()

def read():
    os.read(os.pipe()[0], 1)

def poll():
    select.poll().poll()

def accept():
    server = socket.socket()
    server.listen()
    server.accept()

def key(_):
    time.sleep(1e6)

def sort():
    sorted([2, 1], key=key)

compare_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

@compare_type
def compare(_a, _b):
    time.sleep(1e6)
    return 0

def callback():
    ctypes.CDLL(None).qsort((ctypes.c_int * 4)(4, 3, 2, 1), 4, 4, compare)

WORKS = (lock, timed, event, read, poll, accept, sort, callback)
for work in WORKS:
    begin(work)
print("ready", flush=True)
time.sleep(1e6)
"""
COUNT = 9


def test_every_frame_of_python_is_the_one_that_gdb_finds() -> None:
    with python(THREADS) as pid:
        assert {row.end for row in look(pid, threads=COUNT)} == {START}
        assert_same_as_gdb(pid)


def lists_of(stacks: Sequence[Stack], rows: Mapping[int, NativeStack]) -> dict[str, list[str]]:
    """What the merged frames of each thread are called, by its name."""
    assert len(stacks) == COUNT
    lists = {}
    for stack in stacks:
        found = merged(rows[stack.tid].frames, stack.frames)
        assert found.agrees, stack.thread_name
        lists[stack.thread_name.partition(" ")[0]] = [
            str(frame.name) if isinstance(frame, NativeFrame) else f"py {frame.function}" for frame in found.frames
        ]
    return lists


@pytest.mark.parametrize("version", VERSIONS)
def test_frames_of_python_stand_between_those_of_c(version: str) -> None:
    interpreter = interpreters().get(version) or pytest.skip(f"there is no Python {version} here")
    with python(THREADS, interpreter=interpreter) as pid:
        rows = {row.tid: row for row in look(pid, threads=COUNT)}
        lists = lists_of(StackReader(Proc(), pid).read(1.0).stacks, rows)
        by_py_spy, _ = StackProbe(Proc(), by_itself=False).dump([pid], lambda: 1.0)
    assert lists_of(by_py_spy[pid], rows) == lists
    callback = lists["callback"]
    qsort = next(at for at, name in enumerate(callback) if str(name).startswith("qsort"))
    assert callback.index("py compare") < qsort < callback.index("py callback")
    sort = lists["sort"]
    assert sort.index("py key") < sort.index("py sort")
    assert "py accept" in lists["accept"]


def test_a_wait_of_a_stripped_c_library_has_the_name_of_its_public_function() -> None:
    program = """
import ctypes
semaphore = ctypes.create_string_buffer(64)
print("ready", flush=True)
ctypes.CDLL(None).sem_wait(semaphore)
"""
    with python(program) as pid:
        (row,) = look(pid, threads=1)
    assert any("sem_wait" in name for name in functions(row, "libc")), functions(row)


def test_a_look_is_made_by_the_helper() -> None:
    aside = Aside()
    try:
        with python("import time; print('ready', flush=True); time.sleep(1e6)") as pid:
            own = look(pid)
            (row,) = native_stacks(Proc(aside=aside), pid, [pid], own[0].taken_at)
    finally:
        aside.close()
    assert (row.frames, row.end) == (own[0].frames, START)


RANK = """
import os, sys, time
import torch.distributed as dist, torch
rank = int(sys.argv[1])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
dist.barrier()
print("ready", flush=True)
if rank:
    time.sleep(1e6)
dist.all_reduce(torch.ones(1000))
"""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_a_rank_in_a_collective_shows_what_it_waits_for(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        f"import subprocess, sys\nrank = {RANK!r}\n" + BOTH,
        str(tmp_path / "store"),
    ]
    with process(command) as parent:
        pid = int(Proc().text(parent, "task", parent, "children").split()[0])
        rows = look(pid)
        names = {name for row in rows for name in functions(row)}
        assert {row.end for row in rows} == {START}
        assert "c10d::ProcessGroupGloo::runLoop" in names
        assert any(name.startswith("gloo::all") or "allreduce" in name for name in names), names
        assert_same_as_gdb(pid)


BOTH = """
words = [sys.executable, "-W", "ignore", "-c", rank]
both = [subprocess.Popen([*words, str(n), sys.argv[1]], stdout=subprocess.PIPE, text=True) for n in range(2)]
for one in both:
    assert one.stdout.readline() == "ready\\n"
print("ready", flush=True)
both[0].wait()
"""
