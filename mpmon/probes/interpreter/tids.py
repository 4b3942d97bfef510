"""The kernel's threads of a process, to match with Python's: by native thread id, else by pthread id."""

from __future__ import annotations

import platform
from collections.abc import Iterable

from mpmon.probes.files import Proc
from mpmon.probes.memory import word_at
from mpmon.probes.namespaces import Namespace

TID_AT = {"x86_64": 0x2D0, "aarch64": 0xD0}.get(platform.machine())
"""Offset of `tid` in glibc's `struct pthread` (nptl/descr.h); if unknown, only the main thread is found."""


class Tids:
    """The threads of one process at one moment."""

    def __init__(self, proc: Proc, pid: int) -> None:
        self.pid = pid
        self._proc = proc
        self.counters = run_counters(proc, pid)
        """Of each thread, when this object was made; empty if the process has ended."""
        self.ended: set[int] = set()
        """Threads that `moved` found to have ended since."""
        self._namespace = Namespace(proc, pid)

    def of(self, native_id: int) -> int | None:
        """The kernel's id of a Python thread; `None` if the thread has ended."""
        tid = self._namespace.thread(native_id)
        return tid if tid in self.counters else None

    def moved(self) -> set[int]:
        """Threads that came to a CPU, or left one, since this object was made."""
        after = run_counters(self._proc, self.pid)
        self.ended = self.counters.keys() - after.keys()
        return {tid for tid in self.counters | after if self.counters.get(tid) != after.get(tid)}

    def running(self, tids: Iterable[int] | None = None) -> set[int]:
        """The threads of `tids`, or of the process, that are on a CPU now or wait for one.

        While a thread is on a CPU, its counters and the CPU time of its process advance only at clock ticks,
        milliseconds apart: the kernel accounts for the time when it takes a thread off its CPU (`thread_group_cputime`,
        kernel/sched).
        """
        asked = self.counters if tids is None else tids
        return {tid for tid in asked if self._state(tid) not in b"SDTtZXIP"}

    def ran(self) -> set[int]:
        """Threads that may have run since this object was made."""
        # In this order: a thread that stops running in between has other counters afterwards.
        running = self.running()
        return running | self.moved()

    def _state(self, tid: int) -> bytes:
        try:
            return self._proc.read(self.pid, "task", tid, "stat").rpartition(b")")[2][1:2]
        except OSError:
            return b"X"


class ThreadIds:
    """The kernel's id of a Python thread, by what Python knows of it; valid only if the process has such a thread.

    Python keeps `native_thread_id` from 3.11 on. Before, the id is in glibc's thread control block, whose address is
    the pthread id: `tid` of `struct pthread` (nptl/descr.h). Both are ids in the process's own pid namespace.
    """

    def __init__(self, proc: Proc, pid: int) -> None:
        self._proc, self._pid = proc, pid
        self._namespace = Namespace(proc, pid)

    def of(self, name: str, ident: int | None, native_id: int | None = None) -> int | None:
        """The id; `None` if unknown."""
        if native_id is not None:
            return self._namespace.thread(native_id)
        found = self._from_memory(ident) if ident else None
        return found or (self._pid if name == "MainThread" else None)

    def _from_memory(self, ident: int) -> int | None:
        if TID_AT is None:
            return None
        try:
            word = word_at(self._proc, self._pid, ident + TID_AT)
        except OSError:
            return None
        return None if word is None else self._namespace.thread(word)


def run_counters(proc: Proc, pid: int) -> dict[int, bytes]:
    """Each thread's `schedstat`: unchanged means that it did not run in between."""
    counters: dict[int, bytes] = {}
    try:
        for tid in proc.tids(pid):
            counters[tid] = proc.read(pid, "task", tid, "schedstat")
    except OSError:
        return counters
    return counters
