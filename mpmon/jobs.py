"""The jobs that run on this machine: process trees that look like PyTorch or multiprocessing.

One pass over every proc_pid_stat(5); maps, descriptors and threads are read of Python processes only.
What may not be read (another user's process) counts as not seen.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TextIO

from mpmon.errors import CannotTell
from mpmon.printable import written_out
from mpmon.probes.rights import user_name

PROC = Path("/proc")

THREAD_SIGNS = ("pt_", "gloo")
"""Beginnings of the names torch gives threads: `pt_data_worker`, `pt_tcpstore_*`, `pt_main_thread`, `gloo_*`."""

ARGUMENT_SIGNS = {
    "torchrun": "torchrun",
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "multiprocessing.spawn": "multiprocessing, spawned",
    "multiprocessing.forkserver": "multiprocessing, fork server",
    "multiprocessing.resource_tracker": "multiprocessing, resource tracker",
}
"""Words in the arguments, and what they tell."""

MAP_SIGNS = {"libtorch": "torch is loaded", "/dev/shm/torch_": "shares tensors"}

SEMAPHORES = "/dev/shm/sem."
"""What glibc's sem_open(3) maps for a multiprocessing lock or queue: a forked Python with it is multiprocessing's."""

SERVERS = ("jupyter", "airflow", "supervisord", "celery")
"""Python programs that start jobs without being part of them."""

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


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
    """What it was recognised by."""
    age_s: float


class Candidate:
    """One process of the machine; its files are read when they are asked for."""

    def __init__(self, pid: int, stat: str, proc: Path) -> None:
        self.pid = pid
        self.folder = proc / str(pid)
        before, _, after = stat.rpartition(")")
        fields = after.split()
        self.name = before.partition("(")[2]
        self.state = fields[0]
        self.ppid = int(fields[1])
        self.start_ticks = int(fields[19])

    @cached_property
    def cmdline(self) -> tuple[str, ...]:
        """Its arguments; empty for kernel threads and zombies."""
        text = _text(self.folder / "cmdline")
        return tuple(text.rstrip("\0").split("\0")) if text else ()

    @cached_property
    def uid(self) -> int | None:
        """Its user: the owner of its folder (proc_pid(5))."""
        try:
            return self.folder.stat().st_uid
        except OSError:
            return None

    @cached_property
    def is_python(self) -> bool:
        """By the executable, or by the program's name where the executable is hidden."""
        if not self.cmdline:
            return False
        program = _link(self.folder / "exe") or self.cmdline[0]
        return "python" in program.rpartition("/")[2] or self.name.startswith(THREAD_SIGNS[0])

    @cached_property
    def is_mpmon(self) -> bool:
        """Mpmon itself, on whatever duty; the scenes of its demo are jobs like others."""
        words = self.cmdline[:4]
        by_script = any(word.rpartition("/")[2] == "mpmon" for word in words[:2])
        module = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
        by_module = module.partition(".")[0] == "mpmon" and not module.startswith("mpmon.demo.scenes.")
        return by_script or by_module

    @cached_property
    def is_server(self) -> bool:
        """A program that starts other people's jobs."""
        return any(word.rpartition("/")[2].startswith(SERVERS) for word in self.cmdline[:3])

    def signs(self, parent: Candidate | None) -> tuple[str, ...]:
        """What makes it look like part of a PyTorch or multiprocessing job."""
        maps = _text(self.folder / "maps")
        found = [meaning for sign, meaning in MAP_SIGNS.items() if sign in maps]
        found += {meaning for sign, meaning in ARGUMENT_SIGNS.items() if self._argument_says(sign)}
        if _has_gpu(self.folder / "fd"):
            found.append("uses a GPU")
        if any(name.startswith(THREAD_SIGNS) for name in _thread_names(self.folder / "task")):
            found.append("torch's threads")
        if SEMAPHORES in maps and parent is not None and parent.is_python and parent.cmdline == self.cmdline:
            found.append("multiprocessing, forked")
        return tuple(found)

    def _argument_says(self, sign: str) -> bool:
        """A module or program of this name, or Python code (after -c) that imports it."""
        first = self.cmdline[:8]  # behind them come the arguments of the script
        return any(word == sign or word.endswith(f"/{sign}") or f"from {sign} import" in word for word in first)


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _link(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _has_gpu(folder: Path) -> bool:
    try:
        descriptors = os.listdir(folder)
    except OSError:
        return False
    return any(_link(folder / name).startswith("/dev/nvidia") for name in descriptors)


def _thread_names(folder: Path) -> list[str]:
    try:
        return [_text(folder / tid / "comm") for tid in os.listdir(folder)]
    except OSError:
        return []


class Machine:
    """All processes of one moment."""

    def __init__(self, proc: Path = PROC) -> None:
        self.proc = proc
        self.processes = {
            pid: Candidate(pid, stat, proc)
            for pid in (int(name) for name in os.listdir(proc) if name.isdigit())
            if (stat := _text(proc / str(pid) / "stat"))
        }

    def parent(self, process: Candidate) -> Candidate | None:
        """The parent, `None` when it is hidden or the kernel."""
        return self.processes.get(process.ppid)

    def ancestors(self, pid: int) -> frozenset[int]:
        """A process and everything above it."""
        found: set[int] = set()
        while pid in self.processes and pid not in found:
            found.add(pid)
            pid = self.processes[pid].ppid
        return frozenset(found)

    def climb(self, process: Candidate, stop_at: frozenset[int]) -> Candidate:
        """The topmost process of the job: up while the parent is a Python of the same user that takes part in it."""
        while (parent := self.parent(process)) is not None and parent.pid not in stop_at:
            foreign = parent.uid != process.uid or not parent.is_python or parent.is_mpmon or parent.is_server
            if foreign:
                break
            process = parent
        return process

    def size(self, root: int) -> int:
        """How many processes there are from here on down."""
        children: dict[int, list[int]] = {}
        for process in self.processes.values():
            children.setdefault(process.ppid, []).append(process.pid)
        count, parents = 0, [root]
        while parents:
            count += 1
            parents += children.get(parents.pop(), [])
        return count

    def boot_time(self) -> float:
        """`btime` of proc_stat(5), seconds since the epoch."""
        lines = _text(self.proc / "stat").splitlines()
        return next((float(line.split()[1]) for line in lines if line.startswith("btime ")), 0.0)


def running_jobs(proc: Path = PROC) -> tuple[Job, ...]:
    """The jobs of this machine, the newest first; never mpmon itself nor what it was started from."""
    machine = Machine(proc)
    ours = machine.ancestors(os.getpid())
    why: dict[int, list[str]] = {}
    for process in machine.processes.values():
        if process.pid in ours or process.is_mpmon or not process.is_python:
            continue
        signs = process.signs(machine.parent(process))
        if signs:
            why.setdefault(machine.climb(process, ours).pid, []).extend(signs)
    jobs = [_job(machine, machine.processes[root], signs) for root, signs in why.items()]
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


def climb(pid: int, proc: Path = PROC) -> int:
    """The topmost process of the job that a process belongs to; the process itself when nothing above takes part."""
    machine = Machine(proc)
    process = machine.processes.get(pid)
    if process is None:
        remedy = "Run `mpmon` without a pid to choose from the running jobs"
        raise CannotTell(f"there is no process with pid {pid}.", remedy)
    return machine.climb(process, machine.ancestors(os.getpid())).pid


def choose(jobs: Sequence[Job], stdin: TextIO, stderr: TextIO) -> Job:
    """Ask which job to watch; a single one is taken at once."""
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
    """A number from 1 to the highest, asked until one comes."""
    while True:
        print(f"which job? [1-{highest}, Enter for 1] ", end="", file=stderr, flush=True)
        answer = stdin.readline()
        if not answer:
            raise CannotTell("no job was chosen", "give its pid: mpmon PID")
        if not answer.strip():
            return 1
        if answer.strip().isdecimal() and 1 <= int(answer) <= highest:
            return int(answer)


def describe(job: Job) -> str:
    """One line on a job."""
    return f"{_cut(_name(job), 70)}  ({_facts(job)})"


def _name(job: Job) -> str:
    return f"pid {job.root_pid}  {written_out(' '.join(job.cmdline))}"


def _facts(job: Job) -> str:
    plural = "process" if job.processes == 1 else "processes"
    return f"{job.processes} {plural}, {age(job.age_s)} old, {job.user}; {', '.join(job.why)}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def age(seconds: float) -> str:
    """Seconds as the largest unit that says enough."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
