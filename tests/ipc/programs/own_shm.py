"""Run a program that has a /dev/shm of its own, as in a container: `own_shm.py SIZE [pids] PROGRAM ARGUMENTS`.

With `pids` it has a pid namespace of its own, too. Only root may do that.
"""

import ctypes
import os
import sys

NEW_MOUNTS, NEW_PIDS = 0x20000, 0x20000000
PRIVATE = 1 << 18 | 1 << 14
"""sched.h: CLONE_NEWNS, CLONE_NEWPID; sys/mount.h: MS_PRIVATE, MS_REC."""

libc = ctypes.CDLL(None, use_errno=True)


def call(name, *arguments):
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


def mount(what, where, size=b""):
    call("mount", what, where, what, 0, size)


def main(size, *command):
    pids = command[0] == "pids"
    call("unshare", NEW_MOUNTS | (NEW_PIDS if pids else 0))
    call("mount", b"none", b"/", None, PRIVATE, None)
    mount(b"tmpfs", b"/dev/shm", f"size={size}".encode())
    if pids and (child := os.fork()):
        os.waitpid(child, 0)
        return
    if pids:
        mount(b"proc", b"/proc")
    program = [sys.executable, *command[pids:]]
    os.execv(program[0], program)


if __name__ == "__main__":
    main(*sys.argv[1:])
