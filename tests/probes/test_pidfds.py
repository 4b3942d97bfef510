"""How a process ended, asked of the kernel after its parent has collected it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from mpmon.probes import pidfds
from mpmon.probes.files import Proc
from mpmon.probes.pidfds import Pidfds
from mpmon.probes.processes import ProcessTable
from tests.descriptors import own_descriptors

told = pytest.mark.skipif(pidfds._kernel() < pidfds.SINCE, reason="needs Linux 6.15")


@pytest.fixture
def proc() -> Iterator[Proc]:
    made = Proc()
    yield made
    made.close()


def child(does: Callable[[], object]) -> int:
    """A fork that does this and then waits to be killed."""
    pid = os.fork()
    if pid == 0:
        does()
        signal.pause()
    return pid


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    os.kill(pid, number)
    os.waitpid(pid, 0)


@told
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_one_that_was_killed(proc: Proc, number: int) -> None:
    held, pid = Pidfds(proc), child(lambda: None)
    held.hold(pid)
    assert held.status(pid) is None
    kill(pid, number)
    assert held.status(pid) == number


@told
def test_one_that_ended_by_itself(proc: Proc) -> None:
    reading, writing = os.pipe()
    held, pid = Pidfds(proc), child(lambda: os.read(reading, 1) and os._exit(7))
    held.hold(pid)
    os.write(writing, b"!")
    os.waitpid(pid, 0)
    assert held.status(pid) == 7 << 8
    os.close(reading)
    os.close(writing)


@told
def test_the_table_of_processes_tells_it(proc: Proc) -> None:
    table = ProcessTable(proc, pid := child(lambda: None))
    table.look(1.0)
    kill(pid)
    table.look(2.0)
    (row,) = table.exits
    assert (row.pid, row.process.exit_code) == (pid, signal.SIGKILL)
    table.close()


def test_one_that_was_never_held_is_not_known(proc: Proc) -> None:
    assert Pidfds(proc).status(os.getpid()) is None


def test_an_older_kernel_is_asked_for_nothing(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pidfds.platform, "release", lambda: "5.14.0-427.el9.x86_64")
    held = Pidfds(proc)
    held.hold(os.getpid())
    assert (proc._kept, held.status(os.getpid())) == ({}, None)


def test_no_descriptor_stays(proc: Proc) -> None:
    held = Pidfds(proc)
    before = own_descriptors()
    held.hold(os.getpid())
    assert own_descriptors() - before
    held.drop(os.getpid())
    assert not own_descriptors() - before


def test_one_that_has_gone_is_not_held(proc: Proc) -> None:
    pid = child(lambda: None)
    kill(pid)
    held = Pidfds(proc)
    held.hold(pid)
    assert proc._kept == {}


@told
def test_a_python_that_was_built_against_old_headers(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of conda are."""
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    held, pid = Pidfds(proc), child(lambda: None)
    held.hold(pid)
    kill(pid)
    assert held.status(pid) == signal.SIGKILL
