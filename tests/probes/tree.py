"""A small tree in the form of /proc, for processes that do what a test says."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from mpmon.probes.files import Proc

FIXTURE = Path(__file__).parent / "fixtures" / "proc"
"""A recorded job: a trainer (4100) with a DataLoader worker (4121), a zombie (4130) and a re-parented helper (4140)."""

BOOTED_AT = 1_767_000_000
"""`btime` of the tree, seconds since the epoch."""

TICKS = os.sysconf("SC_CLK_TCK")

POLL_FOREVER = "7 0x1000 0x1 0xffffffff 0x0 0x0 0x0 0x7ffc 0x7f11"


class TreeProc(Proc):
    """Reads a tree of files; where /proc answers ESRCH through a kept descriptor, this finds no file."""

    def reread(self, path: str) -> bytes:
        """The file as it is now."""
        self.forget(path)
        return super().reread(path)


class Tree:
    """Processes that are files; all changes are made in place, as a kept descriptor sees them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(exist_ok=True)
        self._stat: dict[int, dict[str, Any]] = {}
        self._runs: dict[int, int] = {}
        (root / "stat").write_text(f"cpu  1 2 3\nbtime {BOOTED_AT}\nprocesses 9\n")

    def add(
        self, pid: int, *, parent: int = 1, name: str = "python", state: str = "S", start: int = 1000, pgid: int = 4100,
        sid: int = 4100, syscall: str = POLL_FOREVER,
    ) -> None:  # fmt: skip
        """A process with one thread that waits in a system call."""
        home = self.root / str(pid)
        for folder in ("fd", "fdinfo", f"task/{pid}"):
            (home / folder).mkdir(parents=True)
        (home / "cmdline").write_text(f"{name}\0train.py\0")
        (home / "environ").write_text("HOME=/home/ada\0")
        (home / "status").write_text("Uid:\t1000\t1000\t1000\t1000\nTracerPid:\t0\n")
        (home / "io").write_text("rchar: 10\nwchar: 20\n")
        (home / "maps").write_text("")
        (home / "mem").write_bytes(b"")
        self._stat[pid] = {"name": name, "state": state, "ppid": parent, "pgid": pgid, "sid": sid, "start": start}
        self._runs[pid] = 0
        self.thread(pid, pid, name=name, syscall=syscall)
        self._write_stat(pid)

    def thread(self, pid: int, tid: int, *, name: str = "python", syscall: str = "running") -> None:
        home = self.root / str(pid) / "task" / str(tid)
        home.mkdir(exist_ok=True)
        (home / "stat").write_text(f"{tid} ({name}) S 1\n")
        (home / "comm").write_text(f"{name}\n")
        (home / "schedstat").write_text("1000 10 1\n")
        (home / "syscall").write_text(f"{syscall}\n")
        (home / "wchan").write_text("do_poll")
        (home / "sched").write_text("se.exec_start : 5000.0\n")

    def change(self, pid: int, **fields: object) -> None:
        """Other fields of its `stat`: state, ppid, pgid, sid, name, start."""
        self._stat[pid].update(fields)
        self._write_stat(pid)

    def run(self, pid: int, tid: int | None = None) -> None:
        """It runs for a moment, in its main thread or another one."""
        self._runs[pid] += 1
        count = self._runs[pid]
        _overwrite(
            self.root / str(pid) / "task" / str(tid or pid) / "schedstat",
            f"{1000 + count * 500_000_000} 10 {1 + count}\n",
        )

    def calls(self, pid: int, syscall: str, tid: int | None = None) -> None:
        """Its main thread, or another one, waits in another system call."""
        _overwrite(self.root / str(pid) / "task" / str(tid or pid) / "syscall", f"{syscall}\n")

    def end(self, pid: int) -> None:
        """It is gone."""
        shutil.rmtree(self.root / str(pid))
        del self._stat[pid], self._runs[pid]

    def _write_stat(self, pid: int) -> None:
        _overwrite(self.root / str(pid) / "stat", stat_line(pid, **self._stat[pid]))


def stat_line(
    pid: int, *, name: str = "python", state: str = "S", ppid: int = 1, pgid: int = 1, sid: int = 1, start: int = 1000,
    utime: int = 0, threads: int = 1, exit_code: int = 0,
) -> str:  # fmt: skip
    """All 52 fields of proc_pid_stat(5)."""
    fields = [
        state, ppid, pgid, sid, 0, -1, 4194560, 100, 0, 1, 0, utime, 7, 0, 0, 20, 0, threads, 0, start, 400_000_000, 2048,
        *[0] * 25, 0, 0, exit_code,
    ]  # fmt: skip
    return f"{pid} ({name}) {' '.join(map(str, fields))}\n"


def _overwrite(path: Path, text: str) -> None:
    """In place: the file keeps its inode, as files of /proc do."""
    with path.open("r+" if path.exists() else "w") as file:
        file.write(text)
        file.truncate()
