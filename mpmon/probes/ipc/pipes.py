"""Pipes by the descriptors of other processes: which one it is, and how much in it is unread."""

from __future__ import annotations

import fcntl
import os
import stat as file_mode
import struct
import termios


def pipe_of(path: str) -> str | None:
    """`pipe:INODE` of a descriptor in /proc/PID/fd, `None` for anything else; by its name, which asks no file system."""
    try:
        target = os.readlink(path)
    except OSError:
        return None
    return f"pipe:{target[6:-1]}" if target.startswith("pipe:[") else None


def unread_bytes(path: str, name: str) -> int | None:
    """What is unread in an anonymous pipe, `None` when the descriptor is now another one's.

    The pipe is open for reading for some microseconds; nothing is read and nobody is woken.

    Raises:
        OSError: it may not be opened, or is closed.
    """
    # The name is asked for first: to open a FIFO with a name would let a writer go on that waits for a reader.
    if os.readlink(path) != f"pipe:[{name.partition(':')[2]}]":
        return None
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not file_mode.S_ISFIFO(os.fstat(opened).st_mode):
            return None
        return struct.unpack("i", fcntl.ioctl(opened, termios.FIONREAD, b"\0" * 4))[0]
    finally:
        os.close(opened)
