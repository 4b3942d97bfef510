"""Which open file has a lock, with real locks of real processes."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from mpmon.model import KernelObject, Snapshot
from mpmon.probes.file_locks import Taken, file_locks, has_lock
from mpmon.probes.files import Proc
from mpmon.probes.kernel.holdings import file_name
from mpmon.session.sampler import Sampler
from tests.sleepers import SLEEP, sleeper

WAITS = "import fcntl; fcntl.flock(open('lock'), fcntl.LOCK_EX)"
BEQUEATHS = f"""
import fcntl, os, subprocess, sys
held = os.open("lock", os.O_RDWR)
fcntl.flock(held, fcntl.LOCK_EX)
heir = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, pass_fds=[held])
os.close(held)
waiter = subprocess.Popen([sys.executable, "-c", {WAITS!r}])
print("ready", flush=True)
sys.stdin.read()
"""
"""Leaves a lock to a child for which another one waits; they end with it."""


def test_a_lock_belongs_to_the_open_file_that_a_child_inherits(tmp_path: Path) -> None:
    held = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(held, fcntl.LOCK_EX)
    name = file_name(str(tmp_path / "lock"), f"/proc/self/fd/{held}")
    assert has_lock(Proc(), os.getpid(), held)
    with sleeper(SLEEP, pass_fds=[held]) as child:
        os.close(held)
        assert has_lock(Proc(), child.pid, held)
        assert file_locks(Proc())[name].holders == (os.getpid(),), "the kernel names the one who took it"
    assert name not in file_locks(Proc())


def test_a_file_without_a_lock_and_one_that_is_not_there(tmp_path: Path) -> None:
    plain = os.open(tmp_path / "plain", os.O_RDWR | os.O_CREAT)
    try:
        assert not has_lock(Proc(), os.getpid(), plain)
    finally:
        os.close(plain)
    assert not has_lock(Proc(), os.getpid(), plain)


def test_the_heir_is_named_and_not_the_one_who_took_the_lock(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    with sleeper(BEQUEATHS, cwd=tmp_path) as root:
        sampler = Sampler(Proc(), root.pid, now=lambda: 0.0, host="host", stacks="never", eager=True)
        try:
            while (found := _file_lock(sampler)) is None:
                pass
        finally:
            sampler.close()
        locked, snapshot = found
        parents = {row.pid: row.ppid for row in snapshot.processes}
        assert [parents[pid] for pid in locked.holders] == [root.pid]
        assert not any(row.pid in locked.holders for row in snapshot.blocked if locked.id in row.waits_on)


def _file_lock(sampler: Sampler) -> tuple[KernelObject, Snapshot] | None:
    snapshot = sampler.round()
    return next(((row, snapshot) for row in snapshot.objects if row.kind == "file lock"), None)


def test_who_shares_a_lock_is_told_from_who_has_it_alone(tmp_path: Path) -> None:
    """SQLite shares one range of a file with all readers, and takes another one for itself."""
    file = os.open(tmp_path / "base", os.O_RDWR | os.O_CREAT)
    name = file_name(str(tmp_path / "base"), f"/proc/self/fd/{file}")
    try:
        fcntl.lockf(file, fcntl.LOCK_SH, 1, 0)
        assert file_locks(Proc())[name] == Taken((os.getpid(),), (os.getpid(),))
        fcntl.lockf(file, fcntl.LOCK_EX, 1, 5)
        assert file_locks(Proc())[name] == Taken((os.getpid(), os.getpid()), ())
    finally:
        os.close(file)
