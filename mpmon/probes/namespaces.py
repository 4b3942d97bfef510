"""Translates pids and tids of a process's own pid namespace into those of this one.

A process in a container knows its threads and children by the numbers of its own namespace (pid_namespaces(7)), and so
do the arguments of its calls, the owner in a mutex, and Python's objects. /proc and signals here use other numbers, and
the same number may be another process. `NSpid` of proc_pid_status(5) has the number in every namespace, from this
/proc's to the innermost.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from mpmon.probes.files import Proc


class Namespace:
    """The numbers of one process's namespace at one moment; each is looked up once."""

    def __init__(self, proc: Proc, pid: int) -> None:
        self._proc, self._pid = proc, pid

    def thread(self, number: int) -> int | None:
        """One of its own threads, by its own number; `None` if it has no such thread."""
        return self._threads.get(number)

    def anyone(self, number: int) -> int | None:
        """A thread of any process; `None` if its whole namespace would have to be searched."""
        return self.thread(number) or (None if self._depth else number)

    def child(self, number: int) -> int | None:
        """One of its children, including unreaped dead ones; `None` if it has no such child."""
        return self._children.get(number) if self._depth else number

    @cached_property
    def _depth(self) -> int:
        """The number of namespaces between this /proc's and its own."""
        return max(len(_numbers(self._proc, self._pid, "status")) - 1, 0)

    @cached_property
    def _threads(self) -> dict[int, int]:
        try:
            tids = self._proc.tids(self._pid)
        except OSError:
            return {}
        if not self._depth:
            return {tid: tid for tid in tids}
        return self._told((self._pid, "task", tid, "status") for tid in tids)

    @cached_property
    def _children(self) -> dict[int, int]:
        return self._told((child, "status") for tid in self._threads.values() for child in self.children_of(tid))

    def children_of(self, tid: int) -> list[str]:
        """The children that this thread started and that were not reaped, the youngest last: proc_tid_children(5)."""
        try:
            return self._proc.text(self._pid, "task", tid, "children").split()
        except OSError:
            return []

    def _told(self, files: Iterable[tuple[str | int, ...]]) -> dict[int, int]:
        """By the number in this process's namespace; processes in deeper ones have a number in it, too."""
        found: dict[int, int] = {}
        for numbers in (_numbers(self._proc, *file) for file in files):
            if len(numbers) > self._depth:
                found[numbers[self._depth]] = numbers[0]
        return found


def _numbers(proc: Proc, *file: str | int) -> list[int]:
    """`NSpid`: empty if the process is gone, or on a kernel before 4.1."""
    try:
        lines = proc.text(*file).splitlines()
    except OSError:
        return []
    line = next((line for line in lines if line.startswith("NSpid:")), "")
    return [int(field) for field in line.split()[1:]]
