"""Reading below a movable /proc."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from mpmon.probes.files import CHUNK, Proc
from mpmon.probes.memory import READ_LIMIT, Memory
from tests.descriptors import own_descriptors


def test_files_are_read_to_their_end_or_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "maps").write_bytes(b"x" * (2 * CHUNK + 7))
    proc = Proc(tmp_path)
    assert len(proc.read("maps", limit=1 << 22)) == 2 * CHUNK + 7
    assert len(proc.read("maps")) == CHUNK
    assert proc.text("maps", limit=3) == "xxx"


def test_what_is_no_text_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "comm").write_bytes(b"caf\xe9\n")
    assert Proc(tmp_path).text("comm") == "caf\ufffd\n"


def test_only_numbers_are_processes(tmp_path: Path) -> None:
    for name in ("7", "self", "4100", "sys", "12a"):
        (tmp_path / name).mkdir()
    assert sorted(Proc(tmp_path).pids()) == [7, 4100]


def test_a_kept_descriptor_never_speaks_of_another_process() -> None:
    child = subprocess.Popen(["sleep", "1000"])
    proc = Proc()
    path = proc.path(child.pid, "stat")
    assert b"sleep" in proc.reread(path)
    child.kill()
    child.wait()
    with pytest.raises(ProcessLookupError):
        proc.reread(path)
    proc.close()


def test_the_clock_of_a_process_moves_when_it_runs() -> None:
    proc = Proc()
    (first,) = proc.clocks([os.getpid()])
    assert first is not None
    ran_until = time.process_time() + 0.002
    while time.process_time() < ran_until:
        pass
    (second,) = proc.clocks([os.getpid()])
    assert (second or 0) >= first + 2_000_000


def test_the_clock_of_one_that_is_gone_or_of_another_tree_tells_nothing(tmp_path: Path) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    gone, own = Proc().clocks([child.pid, os.getpid()])
    assert gone is None
    assert own is not None
    assert Proc(tmp_path).clocks([os.getpid()]) == [None]


@pytest.mark.parametrize("namespace", ["another", "own"])
def test_the_clocks_of_another_namespace_are_not_asked(namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In /proc of another one, this process has another pid, or none."""
    pid = os.getpid() + (namespace == "another")
    monkeypatch.setattr(os, "readlink", lambda _path: str(pid))
    assert (Proc().clocks([os.getpid()]) == [None]) == (namespace == "another")


def test_a_kernel_without_counters_of_runs_is_not_asked_for_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    exists = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: path != "/proc/self/schedstat" and exists(path))
    assert Proc().clocks([os.getpid()]) == [None]


def test_without_descriptors_to_spare_files_are_opened_each_time(tmp_path: Path) -> None:
    proc = Proc(tmp_path)
    proc._budget = 1
    before = own_descriptors()
    for name in "abc":
        (tmp_path / name).write_text(name)
        assert proc.reread(str(tmp_path / name)) == name.encode()
    assert len(own_descriptors() - before) == 1
    proc.close()
    assert not own_descriptors() - before


@pytest.mark.parametrize(
    ("address", "size"), [(0, 4), (-8, 4), (1 << 63, 4), (0x10, 0), (0x10, READ_LIMIT + 1), (0x1000, 4)]
)
def test_memory_that_cannot_be_read_is_none(tmp_path: Path, address: int, size: int) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "mem").write_bytes(bytes(64))
    with Memory(Proc(tmp_path), 7) as memory:
        assert memory.read(address, size) is None


def test_our_own_memory() -> None:
    import ctypes

    word = ctypes.c_uint32(0xCAFE)
    with Memory(Proc(), os.getpid()) as memory:
        assert memory.unpack("I", ctypes.addressof(word)) == (0xCAFE,)
