"""The memory mappings of a process: proc_pid_maps(5)."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from mpmon.probes.files import Proc

MAPS_LIMIT = 1 << 24
"""Most bytes read of a maps file: some ten thousand mappings."""

_LINE = re.compile(r"[0-9a-f]+-[0-9a-f]+ [rwxps-]{4} [0-9a-f]+ [0-9a-f]+:[0-9a-f]+ \d+(\s|$)")
"""A whole line; the last one may be cut. Only a line feed ends a line: a file name may contain anything else."""


is_shared = re.compile(r"\S+ ...s ").match
"""Of a line: as `Area.is_shared`, without parsing it."""


class Area:
    """One line of the file."""

    __slots__ = ("device", "end", "inode", "offset", "path", "rights", "start")

    def __init__(self, line: str) -> None:
        fields = line.split(None, 5)
        start, _, end = fields[0].partition("-")
        self.start, self.end = int(start, 16), int(end, 16)
        self.rights = fields[1]
        self.offset = int(fields[2], 16)
        self.device, self.inode = fields[3], int(fields[4])
        self.path = fields[5] if len(fields) > 5 else ""

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.start

    @property
    def is_shared(self) -> bool:
        """Writes are seen by other processes."""
        return self.rights[3] == "s"

    @property
    def is_private_memory(self) -> bool:
        """Heap, arenas and stacks: where a process keeps its objects."""
        return self.rights == "rw-p" and (not self.path or self.path == "[heap]" or self.path.startswith("[anon"))

    @property
    def semaphore(self) -> str:
        """The id of the semaphore of sem_open(3) at the start of the mapping; empty if there is none."""
        # The process sees its folder as /dev/shm, but a chroot or a container shows another path, or none, from
        # outside.
        named = self.path.rpartition("/")[2].startswith("sem.")
        return self.object_at(self.start) if named and self.is_shared else ""

    def is_of(self, info: os.stat_result) -> bool:
        """Whether this file is the one that is mapped.

        On a file system without a disk of its own, stat(2) may tell another device than maps does: btrfs one for each
        subvolume, overlayfs its own or that of the layer. Such a number is assigned dynamically by the kernel, with a
        major number of 0; then the inode has to suffice.
        """
        same_device = self.device == device_of(info) or not os.major(info.st_dev)
        return same_device and info.st_ino == self.inode

    def object_at(self, address: int) -> str:
        """The id that all processes agree on for a word in shared memory."""
        return f"semaphore:{self.device}:{self.inode}:{address - self.start + self.offset:x}"


def file_id(info: os.stat_result) -> str:
    """The identity of a file, with device and inode as this file writes them: `file:DEV:INODE`."""
    return f"file:{device_of(info)}:{info.st_ino}"


def device_of(info: os.stat_result) -> str:
    """As this file writes it."""
    return f"{os.major(info.st_dev):02x}:{os.minor(info.st_dev):02x}"


def areas(proc: Proc, pid: int, wanted: Callable[[str], object] = bool) -> list[Area]:
    """Mappings of a process, by address: those whose lines are wanted, as a torch process has hundreds.

    Raises:
        OSError: the process is gone, or another user's.
    """
    lines = filter(wanted, proc.text(pid, "maps", limit=MAPS_LIMIT).split("\n"))
    return [area for line in lines if (area := area_of(line))]


class Layout:
    """The same, by address.

    Lines are parsed on demand: a torch process has hundreds, and unwinding a stack needs ten.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        """Whole lines, by address, as the kernel writes them."""
        self._lines = lines
        self._starts = [int(line.partition("-")[0], 16) for line in lines]
        self._areas: dict[int, Area] = {}

    def at(self, address: int) -> Area | None:
        """The mapping that contains an address."""
        area = self._area(bisect_right(self._starts, address) - 1)
        return area if area and address < area.end else None

    def before(self, area: Area) -> Area | None:
        """The mapping before it."""
        return self._area(bisect_right(self._starts, area.start) - 2)

    def _area(self, number: int) -> Area | None:
        if number < 0:
            return None
        if number not in self._areas:
            self._areas[number] = Area(self._lines[number])
        return self._areas[number]


def layout(proc: Proc, pid: int) -> Layout:
    """All mappings of a process.

    Raises:
        OSError: the process is gone, or another user's.
    """
    return Layout(list(_lines(proc, pid)))


def _lines(proc: Proc, pid: int) -> Iterator[str]:
    return filter(_LINE.match, proc.text(pid, "maps", limit=MAPS_LIMIT).split("\n"))


def area_of(line: str) -> Area | None:
    """One line of the file; `None` if it is cut."""
    return Area(line) if _LINE.match(line) else None
