"""Numbers of the system calls a Python thread blocks in: asm/unistd_64.h, asm-generic/unistd.h.

Only calls that can block for long have a row; any other number is shown as it is.
"""

from __future__ import annotations

import platform

_X86_64 = {
    0: "read", 1: "write", 7: "poll", 17: "pread64", 18: "pwrite64", 19: "readv", 20: "writev", 23: "select",
    34: "pause", 35: "nanosleep", 40: "sendfile", 42: "connect", 43: "accept", 44: "sendto", 45: "recvfrom",
    46: "sendmsg", 47: "recvmsg", 61: "wait4", 65: "semop", 70: "msgrcv", 72: "fcntl", 73: "flock", 74: "fsync",
    75: "fdatasync", 128: "rt_sigtimedwait", 130: "rt_sigsuspend", 202: "futex", 230: "clock_nanosleep",
    232: "epoll_wait", 247: "waitid", 257: "openat", 2: "open", 262: "newfstatat", 270: "pselect6", 271: "ppoll",
    281: "epoll_pwait", 288: "accept4", 299: "recvmmsg", 326: "copy_file_range", 441: "epoll_pwait2",
    449: "futex_waitv",
}  # fmt: skip

_GENERIC = {
    20: "epoll_create1", 22: "epoll_pwait", 25: "fcntl", 32: "flock", 56: "openat", 63: "read", 64: "write",
    65: "readv", 66: "writev", 67: "pread64", 68: "pwrite64", 71: "sendfile", 72: "pselect6", 73: "ppoll",
    79: "newfstatat", 82: "fsync", 83: "fdatasync", 95: "waitid", 98: "futex", 101: "nanosleep",
    115: "clock_nanosleep", 133: "rt_sigsuspend", 137: "rt_sigtimedwait", 193: "semop", 188: "msgrcv",
    202: "accept", 203: "connect", 206: "sendto", 207: "recvfrom", 211: "sendmsg", 212: "recvmsg", 242: "accept4",
    243: "recvmmsg", 260: "wait4", 285: "copy_file_range", 441: "epoll_pwait2", 449: "futex_waitv",
}  # fmt: skip

SYSCALLS: dict[int, str] = _X86_64 if platform.machine() in ("x86_64", "AMD64") else _GENERIC

READS = frozenset({"read", "pread64", "readv", "recvfrom", "recvmsg", "recvmmsg", "accept", "accept4"})
WRITES = frozenset({"write", "pwrite64", "writev", "sendto", "sendmsg", "sendfile", "connect", "copy_file_range"})
POLLS = frozenset({"poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"})
SLEEPS = frozenset({"nanosleep", "clock_nanosleep"})
EXITS = frozenset({"wait4", "waitid"})
