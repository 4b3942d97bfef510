"""What seldom changes in a process: by an exec (which renames it), a tracer (which stops it), or a setting."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from typing import Any

from mpmon.probes.aside import Unanswered, may_hang
from mpmon.probes.files import Proc, sleeps_in_kernel
from mpmon.probes.standstill import Standstill
from mpmon.probes.status import count_of_mask, first_int, has_signal, status_fields

KEPT_ENVIRONMENT = frozenset(
    {
        "CUDA_DEVICE_ORDER",
        "CUDA_VISIBLE_DEVICES",
        "GROUP_RANK",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "MPMON_RUN_DIR",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMP_NUM_THREADS",
        "PMI_RANK",
        "PMI_SIZE",
        "PYTORCH_ALLOC_CONF",
        "PYTORCH_CUDA_ALLOC_CONF",
        "PYTORCH_NO_CUDA_MEMORY_CACHING",
        "RANK",
        "ROLE_RANK",
        "SLURM_JOB_ID",
        "SLURM_LOCALID",
        "SLURM_NODEID",
        "SLURM_NTASKS",
        "SLURM_PROCID",
        "SLURM_STEP_ID",
        "TORCHELASTIC_RESTART_COUNT",
        "TORCHELASTIC_RUN_ID",
        "WORLD_SIZE",
        "XDG_RUNTIME_DIR",
    }
)
"""The only names ever kept of a process's environment: the rest may hold secrets."""

_ENVIRONMENT_LIMIT = 1 << 18
_COMMAND_LIMIT = 1 << 14


class Traits:
    """Reads the traits as fields of `mpmon.model.Process`."""

    def __init__(self, proc: Proc, pid: int, users: Mapping[int, str]) -> None:
        self._proc = proc
        self._pid = pid
        self._users = users
        self._in_place = True
        """Whether mpmon itself may read its memory; else the helper reads it, if there is one."""
        self.unreadable = ""
        """Why some traits are `None`; empty if all may be read."""

    def read(self) -> dict[str, Any]:
        """All traits."""
        self._in_place = not sleeps_in_kernel(self._proc.path(self._pid))
        status = self._status()
        inside = [int(field) for field in status.get("NSpid", "").split()]
        uid = first_int(status.get("Uid"))
        return {
            "cmdline": _split(self._in_memory("cmdline", _COMMAND_LIMIT)),
            "exe": self._link("exe"),
            "cwd": self._link("cwd"),
            "uid": uid,
            "user": None if uid is None else self._users.get(uid),
            "tracer_pid": first_int(status.get("TracerPid")),
            "namespace_pid": inside[-1] if len(inside) > 1 else None,
            "environment": self._environment(),
            "cgroup": _memory_group(self._optional("cgroup")),
            "cpus": count_of_mask(status.get("Cpus_allowed")),
            **_handlers(status),
        }

    def settings(self) -> dict[str, Any]:
        """The traits that the process itself may change at any time: handled signals, working directory."""
        return {**_handlers(self._status()), "cwd": self._link("cwd")}

    def _status(self) -> dict[str, str]:
        return status_fields((self._optional("status") or b"").decode("utf-8", "replace"))

    def _in_memory(self, name: str, limit: int) -> bytes | None:
        """A file that the kernel reads from the memory of the process."""
        if self._in_place:
            return self._optional(name, limit)
        try:
            return read_aside(self._proc, self._pid, name, limit)
        except Unanswered as problem:
            self.unreadable = f"its memory cannot be read: {problem.strerror}"
        except OSError:
            return None
        return None

    def _environment(self) -> dict[str, str] | None:
        text = self._in_memory("environ", _ENVIRONMENT_LIMIT)
        return None if text is None else dict(_kept_pairs(text))

    def _optional(self, name: str, limit: int = 1 << 16) -> bytes | None:
        try:
            return self._proc.read(self._pid, name, limit=limit)
        except PermissionError:
            self.unreadable = "belongs to another user or is not dumpable: only the command line and counters"
            return None
        except Standstill as problem:
            self.unreadable = problem.strerror or ""
            return None
        except OSError:
            return None

    def _link(self, name: str) -> str | None:
        try:
            return self._proc.link(self._pid, name)
        except OSError:
            return None


def _handlers(status: dict[str, str]) -> dict[str, bool]:
    """Which of the relevant signals the process has handlers for, and which it holds off."""
    mask = status.get("SigCgt")
    return {
        "catches_alarm": has_signal(mask, signal.SIGALRM),
        "catches_term": has_signal(mask, signal.SIGTERM),
        "catches_call": any(has_signal(mask, number) for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)),
        "holds_off_term": all(has_signal(status.get(name), signal.SIGTERM) for name in ("ShdPnd", "SigBlk")),
    }


def _memory_group(text: bytes | None) -> str | None:
    """The group of the memory controller: in its own tree in v1, else in the only tree, `0::PATH` (cgroups(7))."""
    lines = [line.split(":", 2) for line in (text or b"").decode("utf-8", "replace").splitlines()]
    groups = {name: fields[2] for fields in lines if len(fields) == 3 for name in fields[1].split(",")}
    return groups.get("memory", groups.get(""))


def _kept_pairs(text: bytes) -> Iterator[tuple[str, str]]:
    for entry in text.decode("utf-8", "replace").split("\0"):
        name, _, value = entry.partition("=")
        if name in KEPT_ENVIRONMENT:
            yield name, value


def _split(text: bytes | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return tuple(text.decode("utf-8", "replace").rstrip("\0").split("\0"))


@may_hang
def read_aside(proc: Proc, pid: int, name: str, limit: int) -> bytes:
    """A file of a process, read in the helper.

    Raises:
        OSError: as open(2) and read(2).
    """
    return proc.read(pid, name, limit=limit)
