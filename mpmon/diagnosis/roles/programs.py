"""Which program a process runs, and which of them is the main program of the job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from mpmon.model import Process, Stack

LONGEST_NAME = 40
"""Longest name shown, of those that programs give, in characters."""

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "busybox"})
"""Programs that run command scripts."""


def main_programs(
    processes: Sequence[Process], stacks: Mapping[int, Sequence[Stack]], root_pid: int
) -> tuple[frozenset[int], frozenset[int]]:
    """The main program of each machine, and the processes that only started it: the root, if it is not Python, and all
    between it and the program.
    """
    by_pid = {process.pid: process for process in processes}
    alive = [process for process in processes if not process.ended]
    found = [by_pid[pid] for pid in topmost_python(alive, root_pid, lambda row: row.pid in stacks or is_python(row))]
    if not found:
        root = by_pid.get(root_pid)
        return frozenset({root_pid}), frozenset({root_pid} if root and program(root) in SHELLS else ())
    mains: dict[str, Process] = {}
    for process in sorted(found, key=lambda row: (row.start_time, row.pid)):
        mains.setdefault(process.host, process)
    starters: set[int] = set()
    for above in mains.values():
        while above.pid != root_pid:
            above = by_pid[above.ppid]  # noqa: PLW2901  the way up
            starters.add(above.pid)
    return frozenset(process.pid for process in mains.values()), frozenset(starters)


def topmost_python(processes: Sequence[Process], root_pid: int, is_one: Callable[[Process], bool]) -> Iterator[int]:
    """Python processes that no other Python process of the job started: the root itself, or those below it."""
    by_pid = {process.pid: process for process in processes}
    children: dict[int, list[int]] = defaultdict(list)
    for process in processes:
        children[process.ppid].append(process.pid)
    line = [root_pid] if root_pid in by_pid else []
    for pid in line:
        if is_one(by_pid[pid]):
            yield pid
        else:
            line += children[pid]


def program(process: Process) -> str:
    """The name of the file a process runs: `python3.11`, `bash`; if it is unreadable, by its command line."""
    command = process.cmdline or (process.name,)
    return (process.exe or command[0]).rpartition("/")[2].removeprefix("-")


def called(process: Process) -> str:
    """A program's name for people: the script or module that a Python runs, `python -c` for code on its command line, the title
    that a process has set (in place of its arguments, as setproctitle does), the file of any other program.
    """
    first, *words = process.cmdline or (process.name,)
    if is_python(process) and not words and "python" not in first:
        return printable(first)
    if not is_python(process):
        return printable(first.rpartition("/")[2] or program(process))
    for at, word in enumerate(words):
        if word == "-m":
            return printable("".join(words[at + 1 : at + 2]))
        if word == "-c":
            return printable(f"{program(process)} -c")
        if not word.startswith("-"):
            return printable(word.rpartition("/")[2])
    return printable(program(process))


def printable(name: str) -> str:
    """A name given by a program, shortened for a line; empty if it is not plain text."""
    if not (name.isascii() and name.isprintable()):
        return ""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def is_python(process: Process) -> bool:
    """It runs a Python, by its program's name."""
    return "python" in program(process)
