"""The torch files that a job shares: tensors on the CPU, and the reference counts of exported CUDA memory.

A file with a name begins with 64 bytes, of which the first four count the processes that have it mapped (MapInfo of
torch's aten/src/ATen/MapAllocator.cpp). A file of 80,064 bytes holds 10,000 counts of 8 bytes behind them: a process
that exports CUDA memory sets the next one to 1, and the receiver decrements it when done (torch/csrc/CudaIPCTypes.cpp).
A tensor of 80,000 bytes in a file with a name looks alike as long as its numbers are small: *refcounter* means probably
so.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping

import msgspec

from mpmon.model import Process, SharedFile, Unknown
from mpmon.probes.door import FILE, Refused, opened
from mpmon.probes.files import Proc
from mpmon.probes.ipc.creators import Creators, inside
from mpmon.probes.ipc.looks import Look, Shared, whole_pages
from mpmon.probes.ipc.tmpfs import shm_of
from mpmon.probes.maps import file_id
from mpmon.probes.memory import READ_LIMIT, Memory
from mpmon.rows import kept

HEAD, SLOTS = 64, 10_000
REFCOUNTER = HEAD + 8 * SLOTS
"""Size of a file of reference counts."""

MOST_MAPPINGS = 4096
LARGEST_COUNT = 64
"""Larger counts mean that the file is something else."""

MOST_SLOTS = 4096
"""Most slots of one file that are reported."""

RELEASED = 256


class Storages:
    """The table of files, from round to round."""

    def __init__(self, proc: Proc, creators: Creators, *, per_round: int) -> None:
        """`per_round`: how many files of reference counts are read in one round."""
        self._proc = proc
        self._creators = creators
        self._per_round = per_round
        self._files: dict[str, _File] = {}
        self._of: dict[int, frozenset[str]] = {}
        """Ids of the files that each process has."""
        self._changed = False
        self._turn = 0
        self._renewals = 0
        self.rows: tuple[SharedFile, ...] = ()
        self.unknowns: tuple[Unknown, ...] = ()
        self.gone: set[int] = set()
        """Processes to read again: a file they had mapped has lost its name."""

    def refresh(
        self, looks: Mapping[int, Look], fresh: Collection[int], processes: Mapping[int, Process], now: float
    ) -> None:
        """Read what may have changed: files of processes that were just read, and reference counts in turns."""
        self.gone = set()
        due = {file.id: file for file in (*self._join(looks, fresh), *self._next_refcounters())}
        for file in due.values():
            self._read(file, looks, processes, now)
        if due:
            problems = {file.problem.pid: file.problem for file in self._files.values() if file.problem}
            self.unknowns = tuple(problems.values())
        changed = self._changed or any(file.row is None for file in due.values())
        if changed or self._creators.renewals != self._renewals:
            self._renew_rows(processes)

    @property
    def ids(self) -> Collection[str]:
        """Files that processes of the job have."""
        return self._files.keys()

    def _join(self, looks: Mapping[int, Look], fresh: Collection[int]) -> list[_File]:
        """Update which process has which file; returns those of processes that were just read."""
        self._changed = False
        for pid in [*fresh, *(pid for pid in self._of if pid not in looks)]:
            before, now = self._of.pop(pid, frozenset[str]()), looks[pid].shared if pid in looks else {}
            for name in before - now.keys():
                self._files[name].holders.discard(pid)
                if not self._files[name].holders:
                    del self._files[name]
            for name, shared in now.items():
                self._files.setdefault(name, _File(name, shared)).add(pid, shared)
            if now:
                self._of[pid] = frozenset(now)
            self._changed |= before != now.keys()
        return [self._files[name] for pid in fresh for name in self._of.get(pid, ())]

    def _renew_rows(self, processes: Mapping[int, Process]) -> None:
        anew = self._creators.renewals != self._renewals
        self._renewals = self._creators.renewals
        rows = (self._row(file, processes) if anew or file.row is None else file.row for file in self._files.values())
        self.rows = kept(tuple(row for row in rows if row), self.rows)

    def _next_refcounters(self) -> Iterator[_File]:
        found = [file for file in self._files.values() if file.text]
        for place in range(min(self._per_round, len(found))):
            yield found[(self._turn + place) % len(found)]
        self._turn += self._per_round

    # Reading

    def _read(self, file: _File, looks: Mapping[int, Look], processes: Mapping[int, Process], now: float) -> None:
        file.problem = None
        for pid in sorted(file.holders & processes.keys()):
            try:
                self._read_through(processes[pid], file, looks[pid], now)
            except (FileNotFoundError, Refused):
                # Its path leads to nothing, or to something else.
                if looks[pid].at < now:
                    self.gone.add(pid)
            except OSError as problem:
                reason = f"files in /dev/shm cannot be read ({(problem.strerror or 'failed').lower()})"
                file.problem = Unknown(table="shared_files", pid=pid, reason=reason)
            else:
                file.problem = None
                return

    def _read_through(self, process: Process, file: _File, look: Look, now: float) -> None:
        """
        Raises:
            OSError: it cannot be read as this process sees it.
        """
        shared = look.shared[file.id]
        if shared.deleted:
            if _may_be_refcounter(file, shared, process):
                file.note(_from_memory(self._proc, process.pid, shared, REFCOUNTER), now)
            elif shared.maps and not shared.descriptors:
                file.note_lost_name(_from_memory(self._proc, process.pid, shared, HEAD))
            return
        with opened(shm_of(self._proc, process.pid).below(shared.name), FILE) as descriptor:
            info = os.fstat(descriptor)
            if file_id(info) != file.id:
                raise FileNotFoundError
            file.size, file.made_at = info.st_size, info.st_mtime
            file.note(os.pread(descriptor, REFCOUNTER if info.st_size == REFCOUNTER else HEAD, 0), now)

    # Rows

    def _row(self, file: _File, processes: Mapping[int, Process]) -> SharedFile | None:
        seen_by = next((processes[pid] for pid in sorted(file.holders) if pid in processes), None)
        if seen_by is None:
            return None
        alive = self._creators.alive(file.shared.creator, seen_by, file.made_at)
        if file.row is None or file.row.creator_alive != alive:
            file.row = file.build(alive)
        return file.row


class _File:
    """One file."""

    def __init__(self, name: str, shared: Shared) -> None:
        self.id = name
        self.shared = shared
        self.holders: set[int] = set()
        self.size: int | None = None
        self.made_at: float | None = None
        self.count: int | None = None
        self.text = b""
        """The content of a file of reference counts."""
        self.counts: dict[int, int] = {}
        self.released: tuple[tuple[int, float], ...] = ()
        self.problem: Unknown | None = None
        self.row: SharedFile | None = None

    def add(self, pid: int, shared: Shared) -> None:
        """Note that a process has it."""
        self.holders.add(pid)
        if shared.deleted and not self.shared.deleted:
            self.shared, self.row = shared, None

    def note(self, text: bytes, now: float) -> None:
        """Note the content that was read."""
        count = int.from_bytes(text[:4], "little", signed=True) if len(text) >= HEAD else None
        found = counts(text)
        if found is None:
            count = None if self.shared.deleted else count
            changed = count != self.count or bool(self.text)
            self.text, self.counts = b"", {}
        else:
            changed = text != self.text
            self.released += tuple((slot, now) for slot in self.counts if slot not in found)
            self.released = self.released[-RELEASED:]
            self.text, self.counts = text, found
        self.count = count
        if changed:
            self.row = None

    def note_lost_name(self, head: bytes) -> None:
        """Note that it has no name and no process keeps a descriptor of it. A tensor sent by descriptor keeps the
        descriptor; one sent by name begins with the count of its users, which remove the name when the count is 0.
        """
        count = int.from_bytes(head[:4], "little", signed=True) if len(head) == HEAD else 0
        found = count if 0 < count <= MOST_MAPPINGS and not head[4:].strip(b"\0") else None
        if found != self.count:
            self.count, self.row = found, None

    def build(self, alive: bool | None) -> SharedFile:  # noqa: FBT001  a fact
        row = SharedFile(
            id=self.id, kind="refcounter" if self.text else "storage", path=self.shared.path,
            deleted=self.shared.deleted, size_bytes=self.shared.size if self.size is None else self.size,
            creator=self.shared.creator, creator_alive=alive,
        )  # fmt: skip
        if not self.text:
            return msgspec.structs.replace(row, count=self.count)
        told = tuple(sorted(self.counts.items())[:MOST_SLOTS])
        return msgspec.structs.replace(
            row, mappings=self.count, slots=told, live_slots=len(self.counts), released=self.released
        )


def counts(text: bytes) -> dict[int, int] | None:
    """The non-zero reference counts, by slot; `None` for a file that is something else."""
    if len(text) != REFCOUNTER:
        return None
    mappings = int.from_bytes(text[:4], "little", signed=True)
    if not 0 < mappings <= MOST_MAPPINGS or text[4:HEAD].strip(b"\0"):
        return None
    used = (len(text.rstrip(b"\0")) - HEAD + 7) // 8
    if used <= 0:
        return {}
    words = memoryview(text)[HEAD : HEAD + 8 * used].cast("q").tolist()
    found = {slot: count for slot, count in enumerate(words) if count}
    return found if all(abs(count) <= LARGEST_COUNT for count in found.values()) else None


def _may_be_refcounter(file: _File, shared: Shared, process: Process) -> bool:
    """Whether a file without a name has reference counts: it had before, or it has their size and its creator keeps no
    descriptor of it, as it would for a tensor.
    """
    if not shared.maps or shared.size != whole_pages(REFCOUNTER):
        return False
    return bool(file.text) or (not shared.descriptors and inside(process) == shared.creator)


def _from_memory(proc: Proc, pid: int, shared: Shared, length: int) -> bytes:
    """
    Raises:
        OSError: the memory cannot be read.
    """
    with Memory(proc, pid) as memory:
        starts = range(0, length, READ_LIMIT)
        parts = [memory.read(shared.address + at, min(READ_LIMIT, length - at)) for at in starts]
    return b"".join(part or b"" for part in parts)
