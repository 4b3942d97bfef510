"""What is on the file system: the same each time, and what a test makes there."""

from __future__ import annotations

import array
import stat
from dataclasses import dataclass, field

from tests.deadfs import protocol as fuse

ROOT = 1
"""The number of the root folder: fuse(4)."""

DATA_BYTES = 16 << 20


@dataclass
class Node:
    """A file or a folder."""

    number: int
    mode: int
    content: bytearray = field(default_factory=bytearray)
    children: dict[str, int] = field(default_factory=dict)
    is_direct: bool = False
    """It is opened with FOPEN_DIRECT_IO."""

    def attributes(self) -> bytes:
        return fuse.attributes(self.number, self.mode, len(self.content))


def data() -> bytearray:
    """Each eight bytes are their own offset, in eights."""
    return bytearray(array.array("Q", range(DATA_BYTES // 8)).tobytes())


_FOLDER, _FILE = stat.S_IFDIR | 0o755, stat.S_IFREG | 0o644

FILES = {
    node.number: node
    for node in (
        Node(ROOT, _FOLDER, children={"data.bin": 2, "small.txt": 3, "run": 4, "direct.bin": 5}),
        Node(2, _FILE, data()),
        Node(3, _FILE, bytearray(b"small\n")),
        Node(4, _FOLDER),
        Node(5, _FILE, data(), is_direct=True),
    )
}
"""By number."""
