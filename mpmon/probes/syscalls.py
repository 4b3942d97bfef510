"""Numbers of the system calls a Python thread blocks in: asm/unistd_64.h, asm-generic/unistd.h.

Only calls that can block for long have a row; any other number is shown as it is.
"""

from __future__ import annotations

import platform

from mpmon.model import CallPlace

_X86_64 = {
    0: "read", 1: "write", 7: "poll", 17: "pread64", 18: "pwrite64", 19: "readv", 20: "writev", 23: "select",
    34: "pause", 35: "nanosleep", 40: "sendfile", 42: "connect", 43: "accept", 44: "sendto", 45: "recvfrom",
    46: "sendmsg", 47: "recvmsg", 61: "wait4", 65: "semop", 69: "msgsnd", 70: "msgrcv", 72: "fcntl", 73: "flock",
    74: "fsync", 75: "fdatasync", 128: "rt_sigtimedwait", 130: "rt_sigsuspend", 202: "futex", 230: "clock_nanosleep",
    232: "epoll_wait", 247: "waitid", 257: "openat", 2: "open", 262: "newfstatat", 270: "pselect6", 271: "ppoll",
    281: "epoll_pwait", 288: "accept4", 299: "recvmmsg", 326: "copy_file_range", 441: "epoll_pwait2",
    449: "futex_waitv", 220: "semtimedop", 242: "mq_timedsend", 243: "mq_timedreceive",
    60: "exit", 231: "exit_group", 56: "clone", 58: "vfork", 435: "clone3",
    3: "close", 4: "stat", 5: "fstat", 6: "lstat", 8: "lseek", 9: "mmap", 11: "munmap", 16: "ioctl", 21: "access",
    26: "msync", 59: "execve", 76: "truncate", 77: "ftruncate", 78: "getdents", 80: "chdir", 82: "rename", 83: "mkdir",
    84: "rmdir", 85: "creat", 86: "link", 87: "unlink", 88: "symlink", 89: "readlink", 90: "chmod", 137: "statfs",
    138: "fstatfs", 187: "readahead", 191: "getxattr", 193: "fgetxattr", 217: "getdents64", 221: "fadvise64",
    258: "mkdirat", 263: "unlinkat", 264: "renameat", 267: "readlinkat", 268: "fchmodat", 269: "faccessat",
    277: "sync_file_range", 280: "utimensat", 285: "fallocate", 295: "preadv", 296: "pwritev", 306: "syncfs",
    316: "renameat2", 327: "preadv2", 328: "pwritev2", 332: "statx", 437: "openat2", 439: "faccessat2",
}  # fmt: skip

_GENERIC = {
    20: "epoll_create1", 22: "epoll_pwait", 25: "fcntl", 32: "flock", 56: "openat", 63: "read", 64: "write",
    65: "readv", 66: "writev", 67: "pread64", 68: "pwrite64", 71: "sendfile", 72: "pselect6", 73: "ppoll",
    79: "newfstatat", 82: "fsync", 83: "fdatasync", 95: "waitid", 98: "futex", 101: "nanosleep",
    115: "clock_nanosleep", 133: "rt_sigsuspend", 137: "rt_sigtimedwait", 188: "msgrcv", 189: "msgsnd",
    192: "semtimedop", 193: "semop", 182: "mq_timedsend", 183: "mq_timedreceive",
    202: "accept", 203: "connect", 206: "sendto", 207: "recvfrom", 211: "sendmsg", 212: "recvmsg", 242: "accept4",
    243: "recvmmsg", 260: "wait4", 285: "copy_file_range", 441: "epoll_pwait2", 449: "futex_waitv",
    93: "exit", 94: "exit_group", 220: "clone", 435: "clone3",
    10: "fgetxattr", 29: "ioctl", 34: "mkdirat", 35: "unlinkat", 38: "renameat", 43: "statfs", 44: "fstatfs",
    45: "truncate", 46: "ftruncate", 47: "fallocate", 48: "faccessat", 49: "chdir", 53: "fchmodat", 57: "close",
    61: "getdents64", 62: "lseek", 69: "preadv", 70: "pwritev", 78: "readlinkat", 80: "fstat", 84: "sync_file_range",
    88: "utimensat", 213: "readahead", 215: "munmap", 221: "execve", 222: "mmap", 223: "fadvise64", 227: "msync",
    267: "syncfs", 276: "renameat2", 286: "preadv2", 287: "pwritev2", 291: "statx", 437: "openat2", 439: "faccessat2",
}  # fmt: skip

SYSCALLS: dict[int, str] = _X86_64 if platform.machine() in ("x86_64", "AMD64") else _GENERIC

READS = frozenset({
    "read", "pread64", "readv", "preadv", "preadv2", "recvfrom", "recvmsg", "recvmmsg", "accept", "accept4", "connect",
})  # fmt: skip
WRITES = frozenset({
    "write", "pwrite64", "writev", "pwritev", "pwritev2", "sendto", "sendmsg", "sendfile", "copy_file_range",
})  # fmt: skip
POLLS = frozenset({"poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"})
SLEEPS = frozenset({"nanosleep", "clock_nanosleep"})
EXITS = frozenset({"wait4", "waitid"})
STARTS = frozenset({"clone", "clone3", "vfork"})

FILE_CALLS = {
    **dict.fromkeys(
        (
            "fadvise64", "fallocate", "fgetxattr", "fstat", "fstatfs", "ftruncate", "getdents", "getdents64",
            "ioctl", "lseek", "readahead", "sync_file_range", "syncfs",
        ),
        0,
    ),
    "mmap": 4,
}  # fmt: skip
"""Other calls about an open file, and which argument is its descriptor."""

PATH_CALLS: dict[str, tuple[int | None, int]] = {
    **dict.fromkeys(
        (
            "access", "chdir", "chmod", "creat", "getxattr", "link", "lstat", "mkdir", "open", "readlink",
            "rename", "rmdir", "stat", "statfs", "symlink", "truncate", "unlink",
        ),
        (None, 0),
    ),
    **dict.fromkeys(
        (
            "faccessat", "faccessat2", "fchmodat", "mkdirat", "newfstatat", "openat", "openat2", "readlinkat", "renameat",
            "renameat2", "statx", "unlinkat", "utimensat",
        ),
        (0, 1),
    ),
}  # fmt: skip
"""Calls about a path, and which arguments are the folder it begins at and the path."""


def place_of(text: bytes) -> CallPlace | None:
    """From the kernel's text: `running`, or number, arguments, stack pointer and program counter (proc_pid_syscall(5)).

    `None` for a thread that waits outside a system call.
    """
    fields = text.split()
    if fields == [b"running"]:
        return "running", 0, 0
    if len(fields) < 9 or fields[0] == b"-1":
        return None
    number = int(fields[0])
    return SYSCALLS.get(number, f"syscall {number}"), int(fields[-2], 16), int(fields[-1], 16)
