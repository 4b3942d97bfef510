"""Every way to start processes works as without the shim, and each process with queues has a file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mpmon.probes.shim.file import ShimFile
from tests.live.interpreters import VERSIONS, interpreters
from tests.shim.running import Done, files, place, queue_of, run

METHODS = ("fork", "spawn", "forkserver")


def same_with_and_without(program: str, *arguments: str, folder: Path, python: str = sys.executable) -> Done:
    """What it says and how it ends; with the shim it complains of nothing it did not complain of before."""
    without = run(program, *arguments, folder=None, python=python)
    with_it = run(program, *arguments, folder=folder, python=python)
    assert with_it[:2] == without[:2]
    assert _complaints(with_it) == _complaints(without)
    assert with_it.status == 0
    return with_it


def _complaints(done: Done) -> list[str]:
    """Without those of the resource tracker, with which a DataLoader's end is at times in a race: semaphores go twice."""
    lines = done.complained.splitlines()
    return [line for line in lines if "resource_tracker" not in line and not line.startswith("  warnings.warn(")]


def in_order(folder: Path) -> list[ShimFile]:
    """A file a process, the one that started first before the others: pids begin anew at some point."""
    return sorted(files(folder).values(), key=lambda file: file.name.start_ticks)


@pytest.mark.parametrize("method", METHODS)
def test_queues_of_all_kinds(method: str, tmp_path: Path) -> None:
    same_with_and_without("items.py", method, folder=tmp_path)
    parent, child = in_order(tmp_path)
    assert (parent.dropped, child.dropped) == (0, 0)

    numbers = queue_of(parent)
    assert (numbers.puts, numbers.sent, numbers.gets, numbers.capacity) == (21, 21, 0, 3)
    assert numbers.put_site == place("items.py", "END")
    assert numbers.made_at == place("items.py", "MADE")
    assert not numbers.putting
    assert queue_of(parent, "SimpleQueue").gets == 20
    assert queue_of(parent, "JoinableQueue").puts == 1

    taken = queue_of(child)
    assert taken.object == numbers.object
    assert (taken.puts, taken.gets, taken.made_at) == (0, 21, None)
    assert taken.received_bytes == numbers.sent_bytes > 0
    doubled = queue_of(child, "SimpleQueue")
    assert (doubled.puts, doubled.sent, doubled.capacity) == (20, 20, None)
    assert doubled.put_site == place("items.py", "DOUBLED", "double")
    assert queue_of(child, "JoinableQueue").gets == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_every_interpreter(version: str, tmp_path: Path) -> None:
    python = interpreters().get(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    for method in METHODS:
        folder = tmp_path / method
        same_with_and_without("items.py", method, folder=folder, python=python)
        assert [queue_of(file).puts for file in in_order(folder)] == [21, 0]


@pytest.mark.parametrize("method", METHODS)
def test_pools_and_executors(method: str, tmp_path: Path) -> None:
    same_with_and_without("pool.py", method, folder=tmp_path)
    rows = [row for file in files(tmp_path).values() for row in file.queues]
    assert sum(row.gets for row in rows if row.kind == "SimpleQueue") > 0
    assert {row.lost for row in rows} == {0}, "the executor tells the future of an object that cannot be pickled"


@pytest.mark.parametrize(("method", "epochs"), [("fork", 2), ("spawn", 1), ("forkserver", 1)])
def test_a_loader(method: str, epochs: int, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    same_with_and_without("loader.py", method, str(epochs), folder=tmp_path)
    _, *workers = in_order(tmp_path)
    assert len(workers) == 2 * epochs, "two each epoch"
    batches = [row for worker in workers for row in worker.queues if row.puts]
    assert sum(row.puts for row in batches) == 8 * epochs
    assert all((row.put_site or "").startswith("worker.py:") for row in batches)


def test_torch_spawn(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    same_with_and_without("spawned.py", folder=tmp_path)
    found = files(tmp_path)
    assert len(found) == 3
    assert sum(row.puts for file in found.values() for row in file.queues if row.kind == "Queue") == 2


def test_ranks_of_torchrun(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    launcher = Path(sys.executable).parent / "torchrun"
    if not launcher.exists():
        pytest.skip("torchrun is not installed")
    program = str(Path(__file__).parent / "programs" / "ranks.py")
    arguments = ("--standalone", "--nproc-per-node=2", program)
    without = run(str(launcher), *arguments, folder=None)
    with_it = run(str(launcher), *arguments, folder=tmp_path)
    assert (with_it.status, with_it.said) == (without.status, without.said) == (0, "total 3.0\n")
    puts = [row.put_site for file in files(tmp_path).values() for row in file.queues if row.puts]
    assert puts == [place("ranks.py", "PUT", "work")] * 2
