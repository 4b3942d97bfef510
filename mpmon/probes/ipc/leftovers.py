"""Files of torch that have a name and that no process of the job has mapped.

If its creator is alive, such a file is in transit to a receiver, or has arrived at one that was not read again since.
If the creator is dead, the file is left behind, with two exceptions: another process still has it mapped, which only
reading every process of the machine can tell; or a manager of torch's `file_system` strategy that was there before the
file will remove it (torch_shm_manager removes what its clients leave two seconds after the last of them). Such a search
takes many rounds, in which processes start and end: a child inherits the mappings of its parent, which may be gone
before it is read. And a process that knows the name may map the file after it was read, from another one that ends
before being read. So all processes are read twice, the second time in the opposite order; those that started meanwhile
are read at the end, all at once; and all are read again from time to time. An unreadable process may have any file of
its user.
"""

from __future__ import annotations

import os
import re
import stat as file_mode
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress

import msgspec

from mpmon.model import Process, SharedFile, SharedMemory
from mpmon.probes.door import FOLDER, Place, names, opened, status
from mpmon.probes.files import Proc
from mpmon.probes.ipc.creators import SLACK_S, Creators
from mpmon.probes.ipc.looks import NAME
from mpmon.probes.ipc.storages import REFCOUNTER
from mpmon.probes.ipc.tmpfs import shm_device, shm_of
from mpmon.probes.maps import MAPS_LIMIT, device_of, file_id
from mpmon.probes.stat import Stat, boot_time
from mpmon.rows import kept

MOST_ENTRIES = 4096
"""Most files examined per folder."""

AGAIN_S, EAGER_AGAIN_S = 20.0, 3.0
"""Interval between two listings of the folders."""

SHARE = 0.0005
"""Share of one CPU that may be spent on searching every process again for the same files."""

MANAGER = "torch_shm"
"""Prefix of the manager's name."""

_UID = re.compile(rb"^Uid:\s+\d+\s+(\d+)", re.MULTILINE)


class _Found(msgspec.Struct):
    """One such file."""

    row: SharedFile
    mark: bytes
    """Device and inode in the form of maps."""
    device: int
    owner: int
    made_at: float


class Leftovers:
    """The table of such files, from round to round."""

    def __init__(self, proc: Proc, creators: Creators, *, eager: bool) -> None:
        self._proc = proc
        self._creators = creators
        self._again_s = EAGER_AGAIN_S if eager else AGAIN_S
        self._share = 1.0 if eager else SHARE
        self._slice_s = 1.0 if eager else 0.001
        self._looked_at = float("-inf")
        self._boot = boot_time(proc)
        self._search: Iterator[None] | None = None
        self._asked: set[str] = set()
        self._asked_at, self._cost_s = float("-inf"), 0.0
        """The last search: its files, when it began, what it has cost so far."""
        self._dead: dict[str, _Found] = {}
        self._orphans: frozenset[str] = frozenset()
        self._sent: tuple[SharedFile, ...] = ()
        self.rows: tuple[SharedFile, ...] = ()

    def refresh(
        self, memories: tuple[SharedMemory, ...], mapped: Collection[str], processes: Mapping[int, Process], now: float
    ) -> None:
        """List the folders when due, and continue the search for processes that have dead files mapped."""
        if self._search is None and now - self._looked_at >= self._again_s:
            self._looked_at = now
            self._list(memories, mapped, processes)
            dead = set(self._dead)
            if dead - self._asked or (dead and now - self._asked_at >= self._cost_s / self._share):
                self._asked, self._asked_at, self._cost_s = dead, now, 0.0
                self._search = self._ask_everybody()
        started = time.monotonic()
        while self._search is not None and time.monotonic() < started + self._slice_s:
            if next(self._search, self) is self:
                self._search = None
        self._cost_s += time.monotonic() - started
        left = tuple(found.row for name, found in self._dead.items() if name in self._orphans)
        rows = (*self._sent, *left)
        self.rows = kept(rows, self.rows)

    def _list(
        self, memories: tuple[SharedMemory, ...], mapped: Collection[str], processes: Mapping[int, Process]
    ) -> None:
        before = {row.id: row for row in self.rows}
        dead, sent = {}, []
        for memory in memories:
            for seen_by, found in self._entries(memory, mapped, processes):
                creator = found.row.creator or 0
                alive = self._creators.alive(creator, seen_by, found.made_at)
                row = msgspec.structs.replace(found.row, creator_alive=alive)
                found.row = before[row.id] if before.get(row.id) == row else row
                # Reference counts are never sent.
                if row.kind == "storage" and self._creators.in_job(creator, found.made_at):
                    sent.append(found.row)
                elif alive is False:
                    dead[row.id] = found
        self._dead, self._sent = dead, tuple(sent)
        self._orphans &= dead.keys()

    def _entries(
        self, memory: SharedMemory, mapped: Collection[str], processes: Mapping[int, Process]
    ) -> Iterator[tuple[Process, _Found]]:
        for pid in memory.pids:
            if pid not in processes:
                continue
            try:
                entries = _files_in(shm_of(self._proc, pid))
            except OSError:
                continue
            for name, info in entries:
                found = _described(name, info)
                if found.row.id not in mapped:
                    yield processes[pid], found
            return

    def _ask_everybody(self) -> Iterator[None]:
        """Search one process per step, including the job's: at the end it is known which files no process has mapped."""
        left, asked = dict(self._dead), set[tuple[int, int]]()
        yield from self._strike_all(left, asked, newest_first=True)
        asked.clear()
        yield from self._strike_all(left, asked, newest_first=False)
        for _ in self._strike_all(left, asked, newest_first=True):
            pass
        self._orphans = frozenset(left)

    def _strike_all(
        self, left: dict[str, _Found], asked: set[tuple[int, int]], *, newest_first: bool
    ) -> Iterator[None]:
        """The same for every present process, except those already searched, by pid and start time."""
        for pid in sorted(self._proc.pids(), reverse=newest_first):
            stat = Stat.read(self._proc, pid) if left else None
            if stat is not None and (pid, stat.start_ticks) not in asked:
                asked.add((pid, stat.start_ticks))
                self._strike(pid, stat, left)
                yield

    def _strike(self, pid: int, stat: Stat, left: dict[str, _Found]) -> None:
        """Remove the files that this process has mapped, may have mapped, or will remove."""
        if stat.state in "ZX" and stat.threads <= 1:
            return
        text = self._mappings(pid, stat)
        if text is None:
            owner = self._owner(pid)
            _drop(left, lambda found: owner in (None, found.owner))
            return
        if b"/torch_" in text:
            _drop(left, lambda found: found.mark in text)
        if stat.name.startswith(MANAGER):
            began, seen = stat.started_at(self._boot), shm_device(self._proc, pid)
            _drop(left, lambda found: began <= found.made_at + SLACK_S and seen in (None, found.device))

    def _mappings(self, pid: int, stat: Stat) -> bytes | None:
        """The process's maps; empty if it is gone, `None` if they cannot be read completely."""
        try:
            # The main thread may end before the others, which keep the memory: proc_pid_task(5).
            other = ("task", self._proc.tids(pid)[-1]) if stat.state == "Z" else ()
            text = self._proc.read(pid, *other, "maps", limit=MAPS_LIMIT)
        except (FileNotFoundError, ProcessLookupError, IndexError):
            return b""
        except OSError:
            return b"" if _is_init(pid, stat) else None
        return text if len(text) < MAPS_LIMIT else None

    def _owner(self, pid: int) -> int | None:
        """The user of a process whose mappings are unknown; `None` if that is unknown too."""
        try:
            found = _UID.search(self._proc.read(pid, "status"))
        except OSError:
            return None
        return int(found[1]) if found else None


def _files_in(folder: Place) -> list[tuple[str, os.stat_result]]:
    """Files of torch, by their names.

    Raises:
        OSError: the folder may not be listed.
    """
    found: list[tuple[str, os.stat_result]] = []
    with opened(folder, FOLDER) as descriptor:
        for name in sorted(name for name in names(descriptor) if NAME.search(name))[:MOST_ENTRIES]:
            # Some may disappear meanwhile.
            with suppress(OSError):
                found.append((name, status(descriptor, name)))
    return [(name, info) for name, info in found if file_mode.S_ISREG(info.st_mode)]


def _described(name: str, info: os.stat_result) -> _Found:
    named = NAME.search(name)
    row = SharedFile(
        id=file_id(info), kind="refcounter" if info.st_size == REFCOUNTER else "storage",
        path=f"/dev/shm/{name}", size_bytes=info.st_size,
        creator=int(named[2]) if named else None,
    )  # fmt: skip
    return _Found(row, f" {device_of(info)} {info.st_ino} ".encode(), info.st_dev, info.st_uid, info.st_mtime)


def _drop(left: dict[str, _Found], fits: Callable[[_Found], bool]) -> None:
    for name in [name for name, found in left.items() if fits(found)]:
        del left[name]


def _is_init(pid: int, stat: Stat) -> bool:
    """Whether it is the first process of the machine: often unreadable, and unrelated to torch."""
    return pid == 1 and "python" not in stat.name
