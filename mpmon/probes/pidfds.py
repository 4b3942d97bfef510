"""The exit status of processes that were already reaped: the kernel tells the holder of a pidfd.

`PIDFD_GET_INFO` with `PIDFD_INFO_EXIT` of linux/pidfd.h, since Linux 6.15. Holding a pidfd keeps nothing alive and
needs no right.
"""

from __future__ import annotations

import contextlib
import fcntl
import platform
import struct

from mpmon.probes.files import Proc
from mpmon.probes.libc import PIDFD_OPEN, call

SINCE = (6, 15)

_INFO_SIZE = 64
"""`struct pidfd_info` of that version."""
_GET_INFO = 3 << 30 | _INFO_SIZE << 16 | 0xFF << 8 | 11
"""_IOWR(PIDFS_IOCTL_MAGIC, 11, struct pidfd_info)."""
_INFO_EXIT = 1 << 3
_MASK, _EXIT_CODE = struct.Struct("=Q"), struct.Struct("=60xi")


class Pidfds:
    """A pidfd for each process of a job."""

    def __init__(self, proc: Proc) -> None:
        self._proc = proc
        self._told = proc.root == "/proc" and _kernel() >= SINCE

    def hold(self, pid: int) -> None:
        """From now on the end of this process can be queried, if the kernel tells it."""
        if self._told:
            # It ended meanwhile, or a sandbox forbids the call.
            with contextlib.suppress(OSError):
                self._proc.keep(_name(pid), lambda: call(PIDFD_OPEN, pid, 0))

    def status(self, pid: int) -> int | None:
        """How a held process ended, in the form of wait(2); `None` if it is alive, or if that is unknown."""
        descriptor = self._proc.kept(_name(pid))
        info = bytearray(_INFO_SIZE)
        _MASK.pack_into(info, 0, _INFO_EXIT)
        try:
            fcntl.ioctl(-1 if descriptor is None else descriptor, _GET_INFO, info)
        except (OSError, ValueError):
            return None
        (mask,), (code,) = _MASK.unpack_from(info), _EXIT_CODE.unpack(info)
        return code if mask & _INFO_EXIT else None

    def drop(self, pid: int) -> None:
        """The process is no longer needed."""
        self._proc.forget(_name(pid))


def _name(pid: int) -> str:
    return f"pidfd of {pid}"


def _kernel() -> tuple[int, ...]:
    """`6.18.44-arch1` as numbers."""
    release = platform.release().partition("-")[0].split(".")
    return tuple(int(part) for part in release if part.isdigit())
