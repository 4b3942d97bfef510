"""Pipes by the descriptors of other processes: their identity, and how much in them is unread."""

from __future__ import annotations

import fcntl
import os
import stat as file_mode
import struct
import termios


def pipe_of(path: str) -> str | None:
    """`pipe:INODE` of a descriptor in /proc/PID/fd, `None` for anything else; by its link text, without accessing a
    file system.
    """
    try:
        target = os.readlink(path)
    except OSError:
        return None
    return f"pipe:{target[6:-1]}" if target.startswith("pipe:[") else None


def unread_bytes(path: str, name: str) -> int | None:
    """The unread bytes of an anonymous pipe; `None` if the descriptor now belongs to something else.

    The pipe is open for reading for some microseconds; nothing is read and nothing is woken.

    Raises:
        OSError: it may not be opened, or is closed.
    """
    # The name is checked first: opening a named FIFO would unblock a writer that waits for a reader.
    if os.readlink(path) != f"pipe:[{name.partition(':')[2]}]":
        return None
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not file_mode.S_ISFIFO(os.fstat(opened).st_mode):
            return None
        return struct.unpack("i", fcntl.ioctl(opened, termios.FIONREAD, b"\0" * 4))[0]
    finally:
        os.close(opened)
