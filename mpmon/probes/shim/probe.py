"""The tables of the shim for a whole job: files of its processes, and those that dead processes left behind."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from mpmon.model import ProbeReport, Process, ShimProcess, Snapshot, Unknown
from mpmon.probes.door import FOLDER, Place, Refused, names, opened, words
from mpmon.probes.files import Proc
from mpmon.probes.shim.file import BadFile, Owner, ShimFile
from mpmon.probes.shim.folders import Home, home_of, user_of
from mpmon.probes.stat import Stat, boot_time
from mpmon.shim.places import RECORDS, Name

MOST_FILES = 1024
"""Most files that are tracked; more are left out, and the report says so."""

MOST_BYTES = 8 << 20
"""Most bytes read in one round; the next round continues with the files that were not reached."""

MOST_STRANGERS = 64
"""Files of processes outside the job that one round checks for having died: a machine may run many jobs."""

Key = tuple[int, int]
"""Pid in its own namespace and start in clock ticks, as in a file's name."""

Environment = dict[str, str] | None


class Found(NamedTuple):
    """A file in one of the folders."""

    place: Place
    name: Name
    users: tuple[int, ...]
    """Users of the job that write into that folder."""


_TICKS = os.sysconf("SC_CLK_TCK")


class ShimProbe:
    """Keeps the rows of all files of a job; runs alongside the process snapshot (`mpmon.session.side_probe`)."""

    def __init__(self, proc: Proc) -> None:
        self._proc = proc
        self._clock_zero = time.time() - time.monotonic()
        self._machine_start = boot_time(proc)
        self._homes: dict[tuple[int, float], tuple[Environment, Home]] = {}
        self._processes: tuple[Process, ...] = ()
        self._members: dict[Key, Process] = {}
        self._files: dict[str, ShimFile] = {}
        self._final: set[str] = set()
        """Files of dead processes, which no longer change."""
        self._unknowns: dict[str, Unknown] = {}
        self._shims: dict[str, ShimProcess] = {}
        self._turn = 0
        self._strangers_turn = 0

    def begin(self) -> None:
        """Nothing has to be requested in advance."""

    def add(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the tables of the shim; unchanged if no process of the job has the shim."""
        started = time.monotonic()
        self._note_members(snapshot.processes)
        trouble = self._find_files(), self._read_files()
        problem = trouble[0] or trouble[1]
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
        """Close all descriptors."""
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
        # A new process, or one that has executed another program.
        status = Stat.read(self._proc, process.pid)
        return home_of(self._proc, process, status.start_ticks) if status else None

    # Which files

    def _find_files(self) -> str | None:
        """Track new files and drop those that were removed; returns why a folder could not be listed."""
        listed: dict[str, Found] = {}
        problem: str | None = None
        seen: set[tuple[int, int]] = set()
        for folder, users in self._folders():
            try:
                listed.update((str(file.place), file) for file in _files_in(folder, users, seen))
            except FileNotFoundError:
                continue
            except Refused as refusal:
                problem = problem or f"{folder} {words(refusal)}, so its records are not read"
            except OSError as refusal:
                problem = problem or f"{folder}: {words(refusal)}"
        for path in self._files.keys() - listed.keys():
            self._drop(path)
        unknown = {path: file for path, file in listed.items() if path not in self._files}
        for path, file in unknown.items():
            if (file.name.pid, file.name.start_ticks) in self._members:
                self._take_up(path, file)
        self._take_up_dead({path: file for path, file in unknown.items() if path not in self._files})
        return problem

    def _folders(self) -> Iterator[tuple[Place, tuple[int, ...]]]:
        """Where processes of the job write, and as which users; through the root of one process for each view."""
        places: dict[tuple[str, str], Place] = {}
        users: dict[tuple[str, str], set[int]] = {}
        for _, home in self._homes.values():
            if home.view and self._members[home.key].ended:
                # Its root is no longer accessible.
                continue
            for folder in home.folders:
                places.setdefault((home.view, folder.path), folder)
                users.setdefault((home.view, folder.path), set()).add(home.user)
        for what, place in places.items():
            yield place, tuple(sorted(users[what]))

    def _take_up(self, path: str, file: Found) -> None:
        member = self._members.get((file.name.pid, file.name.start_ticks))
        if len(self._files) < MOST_FILES:
            pid, users = (member.pid, (user_of(member),)) if member else (file.name.pid, file.users)
            self._files[path] = ShimFile(file.place, file.name, Owner(pid, users, self._clock_zero))

    def _take_up_dead(self, strangers: dict[str, Found]) -> None:
        paths = sorted(strangers)
        begin = self._strangers_turn % len(paths) if paths else 0
        self._strangers_turn = begin + MOST_STRANGERS
        for path in (*paths[begin:], *paths[:begin])[:MOST_STRANGERS]:
            if strangers[path].name.is_dead():
                self._take_up(path, strangers[path])

    def _drop(self, path: str) -> None:
        self._files.pop(path).close()
        self._final.discard(path)
        self._unknowns.pop(path, None)
        self._shims.pop(path, None)

    # What they say

    def _read_files(self) -> str | None:
        """Read files that may have changed; returns what is wrong with one of them."""
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
        # Checked before reading: the last thing a process wrote must not be missed.
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
        """Files of members, and of dead processes that share a queue or a refcounter with a member."""
        usable = [file for file in self._files.values() if file.usable]
        members = [file for file in usable if file.key in self._members]
        dead = [file for file in usable if file.key not in self._members]
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
        path = str(file.place)
        before = self._shims.get(path)
        self._shims[path] = row if before is None or before != row else before
        return self._shims[path]


def _is_same_program(before: Process, now: Process) -> bool:
    return before.key == now.key and before.environment is now.environment


def _files_in(folder: Place, users: tuple[int, ...], seen: set[tuple[int, int]]) -> list[Found]:
    """The shim's files in a folder; none if the folder was seen already: containers may share one.

    Raises:
        OSError: it does not exist, or may not be listed.
        Refused: users other than these may write there.
    """
    with opened(folder, FOLDER.by(*users)) as descriptor:
        info = os.fstat(descriptor)
        if (info.st_dev, info.st_ino) in seen:
            return []
        seen.add((info.st_dev, info.st_ino))
        parsed = ((file, Name.parse(file, RECORDS)) for file in names(descriptor))
        return [Found(folder.below(file), name, users) for file, name in parsed if name]


def _try_to_read(file: ShimFile) -> str:
    """What is wrong, in words; empty when all is well."""
    try:
        file.read()
    except FileNotFoundError:
        return ""
    except BadFile as problem:
        file.forget()
        return f"its shim's file cannot be used: {problem}"
    except Refused as refusal:
        file.forget()
        return f"its shim's file is not trusted: it {words(refusal)}"
    except OSError as problem:
        return f"its shim's file cannot be read: {words(problem)}"
    return ""


def _things(files: Iterable[ShimFile]) -> Iterator[str]:
    """Queues and refcounters that these files mention."""
    for file in files:
        yield from (row.object for row in file.queues)
        yield from (row.file for row in file.exports)
        yield from (row.file for row in file.imports)
