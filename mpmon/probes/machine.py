"""The processes of this machine, and which of them look like part of a PyTorch or multiprocessing job.

Files of a process are read only when needed; what cannot be read (another user's process) counts as absent.
"""

from __future__ import annotations

import os
from functools import cached_property

from mpmon import start
from mpmon.probes import environment
from mpmon.probes.files import CHUNK, link, read, sleeps_in_kernel
from mpmon.probes.maps import MAPS_LIMIT

PROC = "/proc"

THREAD_SIGNS = ("pt_", "gloo")
"""Prefixes of the names torch gives threads: `pt_data_worker`, `pt_tcpstore_*`, `pt_main_thread`, `gloo_*`."""

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

STAT_LIMIT = 1 << 20
"""Most bytes of the machine's `stat`: the boot time follows a line for each CPU and a number for each interrupt."""

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


_KERNELS = 0x200000
"""PF_KTHREAD in the flags of proc_pid_stat(5): linux/sched.h."""


class Candidate:
    """One process of the machine; its files are read on demand."""

    def __init__(self, pid: int, stat: str, proc: str) -> None:
        self.pid = pid
        self.folder = f"{proc}/{pid}"
        before, _, after = stat.rpartition(")")
        fields = after.split()
        self.name = before.partition("(")[2]
        self.state = fields[0]
        self.ppid = int(fields[1])
        self.is_kernels = bool(int(fields[6]) & _KERNELS)
        """A kernel thread, which has no program."""
        self._threads = int(fields[17])
        self.start_ticks = int(fields[19])

    @cached_property
    def cmdline(self) -> tuple[str, ...]:
        """Its arguments; empty for kernel threads and zombies, and if reading them would block."""
        text = "" if self._sleeps_in_kernel else _text(f"{self.folder}/cmdline")
        return tuple(text.rstrip("\0").split("\0")) if text else ()

    @cached_property
    def environment(self) -> dict[str, str]:
        """The variables it was started with; empty if they cannot be read, and in the cases of `cmdline`."""
        text = b"" if self._sleeps_in_kernel else _bytes(f"{self.folder}/environ", environment.LIMIT)
        return environment.variables(text)

    @cached_property
    def _sleeps_in_kernel(self) -> bool:
        """One of its threads may hold the lock of its mappings: see `mpmon.probes.files.sleeps_in_kernel`."""
        return self.state == "D" or (self._threads > 1 and sleeps_in_kernel(self.folder))

    @cached_property
    def uid(self) -> int | None:
        """Its user: the owner of its folder (proc_pid(5))."""
        try:
            return os.stat(self.folder).st_uid
        except OSError:
            return None

    @cached_property
    def is_python(self) -> bool:
        """By the executable, or by the program's name if the executable is hidden."""
        if not self.cmdline:
            return False
        program = _link(f"{self.folder}/exe") or self.cmdline[0]
        return "python" in program.rpartition("/")[2] or self.name.startswith(THREAD_SIGNS[0])

    @cached_property
    def is_mpmon(self) -> bool:
        """Mpmon itself, in any of its functions; the scenes of its demo are ordinary jobs."""
        words = self.cmdline[:4]
        by_script = any(word.rpartition("/")[2] == "mpmon" for word in words[:2])
        module = words[words.index("-m") + 1] if "-m" in words[:-1] else "".join(start.words_of(self.cmdline)[:1])
        by_module = module.partition(".")[0] == "mpmon" and not module.startswith("mpmon.demo.scenes.")
        return by_script or by_module

    @cached_property
    def is_server(self) -> bool:
        """A program that starts other people's jobs."""
        return any(word.rpartition("/")[2].startswith(SERVERS) for word in self.cmdline[:3])

    def signs(self, parent: Candidate | None) -> tuple[str, ...]:
        """What makes it look like part of a PyTorch or multiprocessing job."""
        maps = "" if self._sleeps_in_kernel else _text(f"{self.folder}/maps", MAPS_LIMIT)
        found = [meaning for sign, meaning in MAP_SIGNS.items() if sign in maps]
        found += {meaning for sign, meaning in ARGUMENT_SIGNS.items() if self._argument_says(sign)}
        if _has_gpu(f"{self.folder}/fd"):
            found.append("uses a GPU")
        if any(name.startswith(THREAD_SIGNS) for name in _thread_names(f"{self.folder}/task")):
            found.append("torch's threads")
        if SEMAPHORES in maps and parent is not None and parent.is_python and parent.cmdline == self.cmdline:
            found.append("multiprocessing, forked")
        return tuple(found)

    def _argument_says(self, sign: str) -> bool:
        """A module or program of this name, or Python code (after -c) that imports it."""
        first = self.cmdline[:8]  # behind them come the arguments of the script
        return any(word == sign or word.endswith(f"/{sign}") or f"from {sign} import" in word for word in first)


def _text(path: str, limit: int = CHUNK) -> str:
    return _bytes(path, limit).decode(errors="replace")


def _bytes(path: str, limit: int) -> bytes:
    try:
        return read(path, limit)
    except OSError:
        return b""


def _link(path: str) -> str:
    try:
        return link(path)
    except OSError:
        return ""


def _has_gpu(folder: str) -> bool:
    try:
        descriptors = os.listdir(folder)
    except OSError:
        return False
    return any(_link(f"{folder}/{name}").startswith("/dev/nvidia") for name in descriptors)


def _thread_names(folder: str) -> list[str]:
    try:
        return [_text(f"{folder}/{tid}/comm") for tid in os.listdir(folder)]
    except OSError:
        return []


class Machine:
    """The processes as they were when each was asked for first."""

    def __init__(self, proc: str = PROC) -> None:
        self.proc = proc
        self._seen: dict[int, Candidate | None] = {}

    def process(self, pid: int) -> Candidate | None:
        """One of them, `None` where there is none."""
        if pid not in self._seen:
            stat = _text(f"{self.proc}/{pid}/stat")
            self._seen[pid] = Candidate(pid, stat, self.proc) if stat else None
        return self._seen[pid]

    def processes(self) -> list[Candidate]:
        """All there are."""
        pids = (int(name) for name in os.listdir(self.proc) if name.isdigit())
        return [process for pid in pids if (process := self.process(pid))]

    def parent(self, process: Candidate) -> Candidate | None:
        """The parent; `None` if it is hidden or the kernel."""
        return self.process(process.ppid)

    def ancestors(self, pid: int) -> frozenset[int]:
        """A process and everything above it."""
        found: set[int] = set()
        while pid not in found and (process := self.process(pid)):
            found.add(pid)
            pid = process.ppid
        return frozenset(found)

    def climb(self, process: Candidate, stop_at: frozenset[int]) -> Candidate:
        """The topmost process of the job: up while the parent is a Python of the same user that takes part in it."""
        while (parent := self.parent(process)) is not None and parent.pid not in stop_at:
            foreign = parent.uid != process.uid or not parent.is_python or parent.is_mpmon or parent.is_server
            if foreign:
                break
            process = parent
        return process

    def top(self, pid: int) -> int:
        """The topmost process of the job that a process belongs to; the process itself if nothing above it takes part."""
        process = self.process(pid)
        return self.climb(process, self.ancestors(os.getpid())).pid if process else pid

    def size(self, root: int) -> int:
        """The number of processes from here on down."""
        children: dict[int, list[int]] = {}
        for process in self.processes():
            children.setdefault(process.ppid, []).append(process.pid)
        count, parents = 0, [root]
        while parents:
            count += 1
            parents += children.get(parents.pop(), [])
        return count

    def boot_time(self) -> float:
        """`btime` of proc_stat(5), seconds since the epoch."""
        lines = _text(f"{self.proc}/stat", STAT_LIMIT).splitlines()
        return next((float(line.split()[1]) for line in lines if line.startswith("btime ")), 0.0)
