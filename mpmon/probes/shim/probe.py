"""The tables of the shim for a whole job: files of its processes, and of those that died and left something behind."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator

import msgspec

from mpmon.model import ProbeReport, Process, ShimProcess, Snapshot, Unknown
from mpmon.probes.files import Proc
from mpmon.probes.shim.file import BadFile, Owner, ShimFile
from mpmon.probes.shim.folders import Home, home_of
from mpmon.probes.stat import Stat, boot_time
from mpmon.shim.places import RECORDS, Name

MOST_FILES = 1024
"""Files that are kept in mind; more are left out, and the report says so."""

MOST_BYTES = 8 << 20
"""Read in one round; the next round goes on with the files that were not reached."""

MOST_STRANGERS = 64
"""Files of processes outside of the job of which one round asks whether these have died: a machine may run many jobs."""

Key = tuple[int, int]
"""Pid in its own namespace and start in clock ticks, as in a file's name."""

Environment = dict[str, str] | None

_TICKS = os.sysconf("SC_CLK_TCK")


class ShimProbe:
    """Keeps the rows of all files of a job; asked beside the look at processes (`mpmon.session.side_probe`)."""

    def __init__(self, proc: Proc) -> None:
        self._proc = proc
        self._clock_zero = time.time() - time.monotonic()
        self._machine_start = boot_time(proc)
        self._homes: dict[tuple[int, float], tuple[Environment, Home]] = {}
        self._processes: tuple[Process, ...] = ()
        self._members: dict[Key, Process] = {}
        self._files: dict[str, ShimFile] = {}
        self._final: set[str] = set()
        """Files of the dead, which do not change any more."""
        self._unknowns: dict[str, Unknown] = {}
        self._shims: dict[str, ShimProcess] = {}
        self._turn = 0
        self._strangers_turn = 0

    def begin(self) -> None:
        """Nothing has to be asked before."""

    def add(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the tables of the shim; the same one when no process of the job has it."""
        started = time.monotonic()
        self._note_members(snapshot.processes)
        problem = self._find_files() or self._read_files()
        shown = self._shown()
        if not shown and problem is None:
            return snapshot
        report = ProbeReport(
            name="shim", ok=problem is None, seconds=round(time.monotonic() - started, 4), problem=problem
        )
        return msgspec.structs.replace(
            snapshot,
            shims=tuple(self._shim(file) for file in shown),
            queue_records=tuple(row for file in shown for row in file.queues),
            exports=tuple(row for file in shown for row in file.exports),
            imports=tuple(row for file in shown for row in file.imports),
            unknowns=(*snapshot.unknowns, *self._unknowns.values()) if self._unknowns else snapshot.unknowns,
            probes=(*snapshot.probes, report),
        )

    def close(self) -> None:
        """Give all descriptors back."""
        for path in list(self._files):
            self._drop(path)

    # Whose files

    def _note_members(self, processes: tuple[Process, ...]) -> None:
        before, self._processes = self._processes, processes
        changed = [pair for pair in zip(before, processes, strict=False) if pair[0] is not pair[1]]
        if len(before) == len(processes) and all(_is_same_program(*pair) for pair in changed):
            for _, process in changed:
                if known := self._homes.get(process.key):
                    self._members[known[1].key] = process
            return
        homes: dict[tuple[int, float], tuple[Environment, Home]] = {}
        self._members = {}
        for process in processes:
            home = self._home(process)
            if home is not None:
                homes[process.key] = process.environment, home
                self._members[home.key] = process
        self._homes = homes

    def _home(self, process: Process) -> Home | None:
        known = self._homes.get(process.key)
        if known and known[0] is process.environment:
            return known[1]
        # A new process, or one that has become another program.
        status = Stat.read(self._proc, process.pid)
        return home_of(self._proc, process, status.start_ticks) if status else None

    # Which files

    def _find_files(self) -> str | None:
        """Take up new files and let go of those that were removed; why a folder could not be listed."""
        listed: dict[str, Name] = {}
        problem: str | None = None
        for folder in _distinct({folder: None for _, home in self._homes.values() for folder in home.folders}):
            try:
                names = os.listdir(folder)
            except FileNotFoundError:
                continue
            except OSError as refusal:
                problem = f"{folder}: {(refusal.strerror or 'unreadable').lower()}"
                continue
            found = ((file, Name.parse(file, RECORDS)) for file in names)
            listed.update((os.path.join(folder, file), name) for file, name in found if name)
        for path in self._files.keys() - listed.keys():
            self._drop(path)
        unknown = {path: name for path, name in listed.items() if path not in self._files}
        for path, name in unknown.items():
            if (name.pid, name.start_ticks) in self._members:
                self._take_up(path, name)
        self._take_up_dead({path: name for path, name in unknown.items() if path not in self._files})
        return problem

    def _take_up(self, path: str, name: Name) -> None:
        member = self._members.get((name.pid, name.start_ticks))
        if len(self._files) < MOST_FILES:
            owner = Owner(member.pid if member else name.pid, self._clock_zero)
            self._files[path] = ShimFile(path, name, owner)

    def _take_up_dead(self, strangers: dict[str, Name]) -> None:
        paths = sorted(strangers)
        begin = self._strangers_turn % len(paths) if paths else 0
        self._strangers_turn = begin + MOST_STRANGERS
        for path in (*paths[begin:], *paths[:begin])[:MOST_STRANGERS]:
            if strangers[path].is_dead():
                self._take_up(path, strangers[path])

    def _drop(self, path: str) -> None:
        self._files.pop(path).close()
        self._final.discard(path)
        self._unknowns.pop(path, None)
        self._shims.pop(path, None)

    # What they say

    def _read_files(self) -> str | None:
        """Read what may have changed; what is wrong with one of them."""
        left = MOST_BYTES
        paths = [path for path in self._files if path not in self._final]
        begin = self._turn % len(paths) if paths else 0
        self._turn = 0
        for count, path in enumerate((*paths[begin:], *paths[:begin])):
            if left <= 0:
                self._turn = begin + count
                break
            left -= self._read(path)
        if len(self._files) >= MOST_FILES:
            return f"only {MOST_FILES} of the shim's files are read"
        return next((row.reason for row in self._unknowns.values()), None)

    def _read(self, path: str) -> int:
        file = self._files[path]
        # Asked before reading: what a process wrote last must not be missed.
        ended = file.key not in self._members
        reason = _try_to_read(file)
        self._unknowns.pop(path, None)
        if reason:
            self._unknowns[path] = Unknown(table="queue_records", pid=file.owner.pid, reason=reason, gone=ended)
        if ended:
            file.close()
            self._final.add(path)
        return file.bytes_read

    def _shown(self) -> list[ShimFile]:
        """Files of members, and of the dead that had to do with what a member has."""
        members = [file for file in self._files.values() if file.key in self._members]
        dead = [file for file in self._files.values() if file.key not in self._members]
        shared = set(_things(members)) if dead else set[str]()
        left_behind = [file for file in dead if not shared.isdisjoint(_things([file]))]
        return sorted((*members, *left_behind), key=lambda file: (file.owner.pid, file.name.start_ticks))

    def _shim(self, file: ShimFile) -> ShimProcess:
        member = self._members.get(file.key)
        row = ShimProcess(
            pid=file.owner.pid,
            start_time=member.start_time if member else self._machine_start + file.name.start_ticks / _TICKS,
            alive=member is not None and not member.ended,
            dropped=file.dropped,
            collected_at=file.collected_at,
            received=file.received,
        )
        before = self._shims.get(file.path)
        self._shims[file.path] = row if before is None or before != row else before
        return self._shims[file.path]


def _is_same_program(before: Process, now: Process) -> bool:
    return before.key == now.key and before.environment is now.environment


def _distinct(folders: Collection[str]) -> Iterator[str]:
    """Each once: processes of one container see the same folder, each through its own root."""
    seen: set[tuple[int, int]] = set()
    for folder in folders:
        if len(folders) > 1:
            try:
                info = os.stat(folder)
            except OSError:
                # Whoever lists it tells why not.
                yield folder
                continue
            if (info.st_dev, info.st_ino) in seen:
                continue
            seen.add((info.st_dev, info.st_ino))
        yield folder


def _try_to_read(file: ShimFile) -> str:
    """What is wrong, in words; empty when all is well."""
    try:
        file.read()
    except FileNotFoundError:
        return ""
    except BadFile as problem:
        file.forget()
        return f"its shim's file cannot be used: {problem}"
    except OSError as problem:
        return f"its shim's file cannot be read: {(problem.strerror or 'unreadable').lower()}"
    return ""


def _things(files: Iterable[ShimFile]) -> Iterator[str]:
    """Queues and refcounters that these files speak of."""
    for file in files:
        yield from (row.object for row in file.queues)
        yield from (row.file for row in file.exports)
        yield from (row.file for row in file.imports)
