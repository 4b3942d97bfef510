"""Reading that may stand still is left behind, and nobody asks about that process any more."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from mpmon.probes import standstill
from mpmon.probes.files import Proc
from mpmon.probes.standstill import Standstill, patiently, persistently
from mpmon.probes.stat import Stat, boot_time


@pytest.fixture
def silent() -> Iterator[int]:
    """This process counts as one of which the kernel does not answer."""
    standstill.silent[os.getpid()] = None
    yield os.getpid()
    standstill.silent.clear()


def test_work_returns_and_raises_as_anywhere() -> None:
    assert patiently(lambda: 3) == persistently(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        patiently(lambda: 1 // 0)


@pytest.mark.parametrize("name", ["stat", "environ", "io", "maps", "wchan", "syscall"])
def test_what_takes_the_lock_is_refused(silent: int, name: str) -> None:
    with pytest.raises(Standstill, match="does not answer"):
        Proc().read(silent, name)
    with pytest.raises(Standstill):
        Proc().reread(f"/proc/{silent}/{name}")


@pytest.mark.parametrize("name", ["exe", "cwd", "ns/pid", "fd/0"])
def test_links_are_refused(silent: int, name: str) -> None:
    with pytest.raises(Standstill):
        Proc().link(silent, name)


@pytest.mark.parametrize("name", ["status", "statm", "comm", "schedstat"])
def test_what_takes_none_is_read(silent: int, name: str) -> None:
    assert Proc().read(silent, name)


def test_other_processes_are_read(silent: int) -> None:
    assert Proc().read(os.getppid(), "stat")
    assert Proc().read("stat")


def test_a_process_that_does_not_answer_has_the_same_facts(silent: int) -> None:
    told = Stat.read(Proc(), silent)
    standstill.silent.clear()
    real = Stat.read(Proc(), silent)
    assert told
    assert real
    for name in ("name", "ppid", "pgid", "sid", "threads"):
        assert getattr(told, name) == getattr(real, name)
    assert told.started_at(boot_time(Proc())) >= real.started_at(boot_time(Proc()))


def test_a_start_that_was_known_is_kept(silent: int) -> None:
    standstill.remember_start(silent, 7)
    first, second = Stat.read(Proc(), silent), Stat.read(Proc(), silent)
    assert first
    assert second
    assert first.start_ticks == second.start_ticks == 7
