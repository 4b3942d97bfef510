"""The jobs that run on this machine: process trees that look like PyTorch or multiprocessing.

One pass over every proc_pid_stat(5); maps, descriptors and threads are read only for Python processes.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TextIO

from mpmon.errors import CannotTell
from mpmon.numerals import numeral
from mpmon.printable import command_line
from mpmon.probes.machine import CLOCK_TICKS, PROC, Candidate, Machine
from mpmon.probes.rights import user_name
from mpmon.probes.standstill import persistently


@dataclass(frozen=True)
class Job:
    """One job, by its topmost process."""

    root_pid: int
    start_time: float
    """Seconds since the epoch."""
    user: str
    cmdline: tuple[str, ...]
    processes: int
    """The root and everything below it."""
    why: tuple[str, ...]
    """The signs by which it was recognised."""
    age_s: float


def running_jobs(proc: str = PROC) -> tuple[Job, ...]:
    """The jobs of this machine, newest first; never mpmon itself or its ancestors."""
    return persistently(lambda: _running_jobs(Machine(proc)))


def _running_jobs(machine: Machine) -> tuple[Job, ...]:
    ours = machine.ancestors(os.getpid())
    why: dict[int, list[str]] = {}
    for process in machine.processes():
        if process.pid in ours or process.is_mpmon or not process.is_python:
            continue
        signs = process.signs(machine.parent(process))
        if signs:
            why.setdefault(machine.climb(process, ours).pid, []).extend(signs)
    jobs = [_job(machine, root, signs) for pid, signs in why.items() if (root := machine.process(pid))]
    return tuple(sorted(jobs, key=lambda job: job.start_time, reverse=True))


def _job(machine: Machine, root: Candidate, signs: Iterable[str]) -> Job:
    start_time = machine.boot_time() + root.start_ticks / CLOCK_TICKS
    return Job(
        root_pid=root.pid,
        start_time=start_time,
        user=user_name(root.uid) if root.uid is not None else "",
        cmdline=root.cmdline,
        processes=machine.size(root.pid),
        why=tuple(dict.fromkeys(signs)),
        age_s=max(0.0, time.time() - start_time),
    )


def choose(jobs: Sequence[Job], stdin: TextIO, stderr: TextIO) -> Job:
    """Ask which job to watch; if there is only one, it is chosen without asking."""
    if not jobs:
        raise CannotTell("no PyTorch or multiprocessing job runs here", "try `mpmon demo`, or give a pid: mpmon PID")
    if len(jobs) == 1:
        print(f"watching the one job here: {describe(jobs[0])}", file=stderr)
        return jobs[0]
    room = shutil.get_terminal_size().columns - len("  1  ")
    for number, job in enumerate(jobs, 1):
        print(f"{number:>3}  {_cut(_name(job), room)}\n     {_cut(_facts(job), room)}", file=stderr)
    return jobs[_ask(len(jobs), stdin, stderr) - 1]


def _ask(highest: int, stdin: TextIO, stderr: TextIO) -> int:
    """Ask for a number from 1 to the highest until a valid one is given or the user quits."""
    while True:
        print(f"which job? [1-{highest}, Enter for 1, q to leave] ", end="", file=stderr, flush=True)
        answer = stdin.readline()
        if not answer or answer.strip() in ("q", "Q"):
            raise not_chosen()
        if not answer.strip():
            return 1
        number = numeral(answer.strip())
        if number and number <= highest:
            return number


def not_chosen() -> CannotTell:
    """What to raise when the user chooses none."""
    return CannotTell("no job was chosen", "give its pid: mpmon PID")


def in_two_lines(job: Job) -> tuple[str, str]:
    """What it is, and what is known about it."""
    return _name(job), _facts(job)


def describe(job: Job) -> str:
    """One line on a job."""
    return f"{_cut(_name(job), 70)}  ({_facts(job)})"


def _name(job: Job) -> str:
    return f"pid {job.root_pid}  {command_line(job.cmdline)}"


def _facts(job: Job) -> str:
    plural = "process" if job.processes == 1 else "processes"
    signs = dict.fromkeys(word for sign in job.why for word in sign.split(", "))
    return f"{job.processes} {plural}, {age(job.age_s)} old, {job.user}; {', '.join(signs)}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def age(seconds: float) -> str:
    """Seconds in the largest suitable unit."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
