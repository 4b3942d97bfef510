"""What can be read of one process, and what kind of process it is."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mpmon.doctor.check import Check
from mpmon.doctor.stacks import STACKS, check_target_stacks
from mpmon.probes.files import read
from mpmon.probes.machine import Machine
from mpmon.probes.rights import (
    Credentials,
    is_dumpable,
    is_python,
    read_credentials,
    user_name,
    why_refused,
    why_unreadable,
)

STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "in uninterruptible sleep",
    "I": "idle",
    "T": "stopped",
    "t": "held by a tracer",
    "Z": "a zombie",
    "X": "dead",
}
"""The letters of proc_pid_stat(5)."""

PRIVATE_FILES: Mapping[str, str] = {
    "syscall": "what its threads wait in",
    "io": "how much it reads and writes",
    "maps": "its shared memory and semaphores",
    "fd": "its pipes, sockets and files",
}
"""Files of /proc/PID that require a right to read, and what mpmon learns from them."""


def checks_of_process(pid: int | None, proc: Path) -> Iterator[Check]:
    """All checks of this module; nothing without a pid."""
    if pid is None:
        return
    target = read_credentials(pid, proc)
    if target is None:
        remedy = "run `mpmon` without a pid to choose from the running jobs"
        yield Check(f"{STACKS} of pid {pid}", ok=False, because="there is no such process here", do_this=remedy)
        return
    yield check_state(pid, target)
    if not target.state or target.state in "ZX":
        yield Check(f"{STACKS} of pid {pid}", ok=False, because=why_unreadable(pid, proc))
        return
    process = Machine(str(proc)).process(pid)
    if process and process.is_kernels:
        because = f"it is {process.name}, a kernel thread, which runs no Python"
        yield Check(f"{STACKS} of pid {pid}", ok=False, because=because)
        return
    yield check_owner(pid, target, proc)
    yield check_dumpable(pid, target, proc)
    yield check_tracer(pid, target)
    below = [] if is_python(pid, proc) is not False else _pythons_below(pid, proc)
    yield check_python(pid, target, proc, below)
    yield check_target_namespace(pid, target, proc)
    yield from (check_file(pid, name, what, proc) for name, what in PRIVATE_FILES.items())
    yield check_target_stacks(next(iter(below), pid), proc)


def check_state(pid: int, target: Credentials) -> Check:
    """Running, stopped, or a zombie."""
    name, what = f"state of pid {pid}", STATES.get(target.state, f"in state {target.state}")
    if target.state in {"Z", "X"}:
        because = f"it is {what}: it has ended and its parent has not reaped it"
        return Check(name, ok=False, because=because, do_this=f"look at its parent: mpmon doctor {target.ppid}")
    if target.state == "T":
        because = "it is stopped (SIGSTOP or Ctrl-Z)"
        return Check(name, ok=True, because=because, do_this=f"to resume it: kill -CONT {pid}")
    return Check(name, ok=True, because=f"it is {what}")


def check_owner(pid: int, target: Credentials, proc: Path) -> Check:
    """Its owner, and whether that allows reading it."""
    owner = user_name(target.uids[1]) if target.uids else "an unknown user"
    because, _, remedy = why_refused(pid, proc).partition(": ")
    if because:
        return Check(f"user of pid {pid}", ok=False, because=because, do_this=remedy)
    return Check(f"user of pid {pid}", ok=True, because=f"{owner}, whose processes mpmon may read")


def check_dumpable(pid: int, target: Credentials, proc: Path) -> Check:
    """Whether it denies reading to its own user: PR_SET_DUMPABLE(2const)."""
    name = f"dumpable, pid {pid}"
    answer = is_dumpable(pid, proc, target.uids[1]) if target.uids else None
    if answer is None:
        return Check(name, ok=None, because="cannot be seen for root's processes; root may read them anyway")
    if answer:
        return Check(name, ok=True, because="its files in /proc belong to its user")
    because = "its files in /proc belong to root: it is setuid or has cleared the flag"
    return Check(name, ok=False, because=because, do_this="run mpmon as root")


def check_tracer(pid: int, target: Credentials) -> Check:
    """Whether a debugger is attached."""
    if not target.tracer_pid:
        return Check(f"tracer of pid {pid}", ok=True, because="none")
    because = f"pid {target.tracer_pid} traces it; stacks can be read all the same"
    remedy = "if that is why the job makes no progress, detach the debugger"
    return Check(f"tracer of pid {pid}", ok=None, because=because, do_this=remedy)


def _pythons_below(pid: int, proc: Path) -> list[int]:
    """The Python processes of the job below a shell or a launcher, in the order in which they started."""
    machine = Machine(str(proc))
    below = (row for row in machine.processes() if pid in machine.ancestors(row.pid))
    pythons = (row for row in below if row.is_python and not row.is_mpmon)
    return [row.pid for row in sorted(pythons, key=lambda row: row.start_ticks)]


def check_python(pid: int, target: Credentials, proc: Path, below: Sequence[int] = ()) -> Check:
    """Whether there is a Python in it, or in its descendants."""
    name = f"Python in pid {pid}"
    answer = is_python(pid, proc)
    if answer is None:
        return Check(name, ok=None, because="its executable and maps cannot be read")
    if answer:
        return Check(name, ok=True, because=f"{target.name}: a Python executable or library")
    if below:
        they = f"{len(below)} Python processes" if len(below) > 1 else "Python process"
        return Check(name, ok=True, because=f"{target.name} is not Python: mpmon judges the {they} below it")
    because = f"{target.name} is not Python, and there is no Python process below it"
    return Check(name, ok=False, because=because, do_this="run `mpmon` without a pid to choose from the running jobs")


def check_target_namespace(pid: int, target: Credentials, proc: Path) -> Check:
    """Whether it lives in a container within ours."""
    name = f"namespace of pid {pid}"
    if len(target.namespace_pids) > 1:
        inside = target.namespace_pids[-1]
        return Check(name, ok=True, because=f"in a separate pid namespace (container), where it is pid {inside}")
    try:
        same = os.readlink(proc / "self/ns/pid") == os.readlink(proc / str(pid) / "ns/pid")
    except OSError:
        return Check(name, ok=None, because="cannot be read")
    return Check(name, ok=True, because="the same as mpmon's" if same else "different from mpmon's")


def check_file(pid: int, name: str, what: str, proc: Path) -> Check:
    """Whether one private file can be read."""
    path = proc / str(pid) / name
    try:
        if name == "fd":
            os.listdir(path)
        else:
            read(str(path))
    except OSError as error:
        remedy = "see the checks of rights and users above" if isinstance(error, PermissionError) else ""
        return Check(what, ok=False, because=f"{path}: {error.strerror}", do_this=remedy)
    return Check(what, ok=True, because=f"{path} can be read")
