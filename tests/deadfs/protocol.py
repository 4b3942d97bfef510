"""The kernel's side of FUSE: what it writes into /dev/fuse and wants back (linux/fuse.h, fuse(4)); version 7.31."""

from __future__ import annotations

import struct
from typing import NamedTuple

LOOKUP, FORGET, GETATTR, SETATTR, MKNOD, UNLINK = 1, 2, 3, 4, 8, 10
OPEN, READ, WRITE, STATFS, RELEASE = 14, 15, 16, 17, 18
FSYNC, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR = 20, 25, 26, 27, 28, 29
INTERRUPT, DESTROY, BATCH_FORGET = 36, 38, 42
"""Opcodes."""

MAJOR, MINOR = 7, 31
ASYNC_READ = 1
"""A flag of INIT: pages are read ahead in the background, so that whoever needs one waits for the page itself."""
PARALLEL_LOOKUPS = 1 << 18
"""Another one: whoever looks up a name does not lock the folder meanwhile (FUSE_PARALLEL_DIROPS, as libfuse has it)."""
DIRECT_IO = 1
"""A flag of OPEN: `read` goes past the page cache; `mmap` first throws away what is in it."""

LONGEST_WRITE = 1 << 17
LONGEST_REQUEST = LONGEST_WRITE + (1 << 12)
"""Bytes; what is read from /dev/fuse must have room for the longest."""

_IN = struct.Struct("=IIQQIIIHH")
_OUT = struct.Struct("=IiQ")
_INIT_IN = struct.Struct("=IIII")
_INIT_OUT = struct.Struct("=IIIIHHIIHHII24x")
_MKNOD_IN = struct.Struct("=IIII")
_READ_IN = struct.Struct("=QQIIQI4x")
_ATTRIBUTES = struct.Struct("=QQQQQQIIIIIIIIII")
_STATFS = struct.Struct("=QQQQQIII28x")
_DIRENT = struct.Struct("=QQII")
_BLOCK = 4096


class Request(NamedTuple):
    """One question of the kernel."""

    opcode: int
    unique: int
    node: int
    tid: int
    """The thread that asks, as the mount's pid namespace numbers it; 0 for the kernel itself."""
    body: bytes

    @classmethod
    def parse(cls, text: bytes) -> Request:
        length, opcode, unique, node, _, _, tid, *_ = _IN.unpack_from(text)
        return cls(opcode, unique, node, tid, text[_IN.size : length])

    def name(self) -> str:
        """Of LOOKUP, UNLINK and MKNOD."""
        body = self.body[_MKNOD_IN.size :] if self.opcode == MKNOD else self.body
        return body.partition(b"\0")[0].decode()

    def mode(self) -> int:
        """Of MKNOD."""
        return _MKNOD_IN.unpack_from(self.body)[0]

    def span(self) -> tuple[int, int]:
        """Of READ, WRITE and READDIR: offset and size."""
        _, offset, size, *_ = _READ_IN.unpack_from(self.body)
        return offset, size

    def written(self) -> bytes:
        """Of WRITE."""
        return self.body[_READ_IN.size :]


def reply(request: Request, body: bytes = b"", *, error: int = 0) -> bytes:
    """An answer; `error` is a number of errno(3)."""
    return _OUT.pack(_OUT.size + len(body), -error, request.unique) + body


def greeting(request: Request) -> bytes:
    """INIT: what this server can do."""
    _, _, ahead, flags = _INIT_IN.unpack_from(request.body)
    return _INIT_OUT.pack(
        MAJOR, MINOR, ahead, flags & (ASYNC_READ | PARALLEL_LOOKUPS), 0, 0, LONGEST_WRITE, 1, 0, 0, 0, 0
    )


def attributes(node: int, mode: int, size: int) -> bytes:
    """`struct fuse_attr`."""
    blocks = -(-size // 512)
    return _ATTRIBUTES.pack(node, size, blocks, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, _BLOCK, 0)


def entry(node: int, about: bytes) -> bytes:
    """LOOKUP and MKNOD, to be asked again each time."""
    return struct.pack("=QQQQII", node, 0, 0, 0, 0, 0) + about


def attribute_reply(about: bytes) -> bytes:
    """GETATTR and SETATTR, to be asked again each time."""
    return struct.pack("=QII", 0, 0, 0) + about


def opened(flags: int) -> bytes:
    """OPEN and OPENDIR."""
    return struct.pack("=QIi", 0, flags, 0)


def written(size: int) -> bytes:
    """WRITE."""
    return struct.pack("=II", size, 0)


def statistics() -> bytes:
    """STATFS."""
    return _STATFS.pack(1 << 20, 1 << 19, 1 << 19, 1000, 900, _BLOCK, 255, _BLOCK)


def directory_entry(node: int, following: int, kind: int, name: str) -> bytes:
    """One of READDIR; `following` is the offset of the next, `kind` the file type bits of a mode, shifted as d_type."""
    text = name.encode()
    return (_DIRENT.pack(node, following, len(text), kind) + text).ljust(-(-(_DIRENT.size + len(text)) // 8) * 8, b"\0")
