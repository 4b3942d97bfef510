"""System calls that Python 3.10 does not have."""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x20000
MS_NOSUID, MS_NODEV = 2, 4
MNT_DETACH = 2
"""linux/sched.h, linux/mount.h."""

_LIBC = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(place: str, source: str, kind: str, device: int) -> None:
    """A file system of a kind `fuse.…` whose server reads `device`, a descriptor of /dev/fuse: mount.fuse(8).

    Raises:
        OSError: not root, or no FUSE here.
    """
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    flags = MS_NOSUID | MS_NODEV
    _check(_LIBC.mount(source.encode(), os.fsencode(place), kind.encode(), flags, options.encode()), "mount")


def unmount(place: str) -> None:
    """At once, whoever uses it: umount2(2)."""
    _check(_LIBC.umount2(os.fsencode(place), MNT_DETACH), "umount")


def enter_namespace(pid: int) -> None:
    """The mount namespace of a process."""
    descriptor = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_LIBC.setns(descriptor, CLONE_NEWNS), "setns")
    finally:
        os.close(descriptor)
