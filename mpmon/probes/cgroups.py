"""Out-of-memory kills in the job's control groups, and the limits of these groups.

The out-of-memory killer ends a process with SIGKILL, without a message; the kernel's log needs rights, and a container
has no dmesg. The control group counts such kills, whichever limit caused them, and any user may read the count:
`memory.events` in v2, `memory.oom_control` in v1 (the kernel's admin-guide/cgroup-v2 and cgroup-v1/memory).

proc_pid_mountinfo(5) tells where a group's files are, and which part of the tree a container sees. A round costs one
read per group; limits are read again only when the count has changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from mpmon.model import Cgroup, Process
from mpmon.probes.files import Proc

MOST_GROUPS = 64
"""Number of groups of one job that are followed."""

UNLIMITED = 1 << 62
"""What v1 shows for no limit is the largest number of pages, in bytes."""


@dataclass(frozen=True)
class Hierarchy:
    """Where the groups of the memory controller are mounted."""

    folder: str
    root: str
    """The group that is mounted there: `/` on a machine, a container's own group if v1 has no namespaces."""
    version: int

    def directory(self, path: str) -> str | None:
        """Where a group's files are; `None` if it is not below the mounted group."""
        if not path.startswith("/") or path.startswith("/.."):
            # As cgroup_namespaces(7) shows a group outside the reader's own.
            return None
        inside = os.path.relpath(path, self.root)
        return None if inside.startswith("..") else os.path.normpath(os.path.join(self.folder, inside))

    def upwards(self, directory: str) -> Iterator[str]:
        """The directories of a group and of its ancestors."""
        while directory.startswith(self.folder):
            yield directory
            directory = os.path.dirname(directory)


class CgroupTable:
    """The control groups of one job, from round to round."""

    def __init__(self, proc: Proc) -> None:
        self._proc = proc
        self._hierarchy = hierarchy(proc)
        self._groups: dict[str, _Group] = {}

    def look(self, processes: Iterable[Process], now: float) -> tuple[Cgroup, ...]:
        """One row per group, by path; a removed group keeps its last row."""
        for process in processes:
            if process.cgroup is not None and process.cgroup not in self._groups and len(self._groups) < MOST_GROUPS:
                self._groups[process.cgroup] = _Group(self._proc, self._hierarchy, process.cgroup)
        return tuple(self._groups[path].look(now) for path in sorted(self._groups))


class _Group:
    """One control group: the text of its counters, and the row made from it."""

    def __init__(self, proc: Proc, hierarchy: Hierarchy | None, path: str) -> None:
        self._proc = proc
        self._text: bytes | None = None
        directory = hierarchy.directory(path) if hierarchy else None
        self._files = _Files(directory, hierarchy) if hierarchy and directory else None
        why = "it is not below the control groups mounted here" if hierarchy else "no control groups are mounted here"
        self._row = Cgroup(path=path, reasons=dict.fromkeys(("oom_kills", *_WHY_NONE), why))

    def look(self, now: float) -> Cgroup:
        """The row; the same object as before unless the counters changed."""
        if self._files is None:
            return self._row
        try:
            text = self._proc.reread(self._files.events)
        except OSError:
            # The machine's own root group counts nothing, and a removed group no longer does.
            text = self._text or b""
        if text != self._text:
            self._text = text
            self._row = self._read(self._files, counter(text, b"oom_kill"), now)
        return self._row

    def _read(self, files: _Files, kills: int | None, now: float) -> Cgroup:
        before = self._row.oom_kills
        grew = kills is not None and before is not None and kills > before
        row = Cgroup(
            path=self._row.path, oom_kills=kills, oom_kill_seen_at=now if grew else self._row.oom_kill_seen_at,
            limit_bytes=files.limit(), peak_bytes=files.peak(), cpus=files.cpus(),
        )  # fmt: skip
        why = {"oom_kills": f"{files.events} does not tell", **_WHY_NONE}
        reasons = {name: words for name, words in why.items() if getattr(row, name) is None}
        return msgspec.structs.replace(row, reasons=reasons)


class _Files:
    """The files of one control group and of its ancestors."""

    def __init__(self, directory: str, hierarchy: Hierarchy) -> None:
        second = hierarchy.version == 2
        around = list(hierarchy.upwards(directory))
        self.events = f"{directory}/{'memory.events' if second else 'memory.oom_control'}"
        self._peak = f"{directory}/{'memory.peak' if second else 'memory.max_usage_in_bytes'}"
        self._limits = [f"{each}/{'memory.max' if second else 'memory.limit_in_bytes'}" for each in around]
        self._shares = [f"{each}/cpu.max" for each in around] if second else []

    def limit(self) -> int | None:
        """Bytes; `None` for no limit."""
        limits = (_number(path) for path in self._limits)
        return min((limit for limit in limits if limit is not None and limit < UNLIMITED), default=None)

    def peak(self) -> int | None:
        """Bytes; `None` if the kernel does not report it (v2 before Linux 5.19)."""
        return _number(self._peak)

    def cpus(self) -> float | None:
        """Quota by period of `cpu.max`, where "max" is no limit."""
        pairs = (_words(path) for path in self._shares)
        shares = [int(pair[0]) / int(pair[1]) for pair in pairs if len(pair) == 2 and pair[0].isdigit()]
        return min(shares, default=None)


_WHY_NONE = {
    "limit_bytes": "no limit is set",
    "peak_bytes": "this kernel does not say",
    "cpus": "no limit is set, or the groups are of version 1",
}


def hierarchy(proc: Proc, controller: str = "memory") -> Hierarchy | None:
    """Where the groups of a controller are mounted; `None` if control groups are not mounted at all."""
    try:
        lines = proc.text("self", "mountinfo", limit=1 << 20).splitlines()
    except OSError:
        return None
    mounts = [mount for line in lines if (mount := _mount(line, controller))]
    # On a machine with both versions, the controller is in v1's tree if that has it.
    return min(mounts, key=lambda mount: mount.version, default=None)


def _mount(line: str, controller: str) -> Hierarchy | None:
    """`ID PARENT DEVICE ROOT FOLDER OPTIONS … - TYPE SOURCE OPTIONS` of proc_pid_mountinfo(5)."""
    place, _, kind = line.partition(" - ")
    fields, words = place.split(), kind.split()
    if len(fields) < 5 or len(words) < 3:
        return None
    if words[0] == "cgroup2":
        return Hierarchy(_plain(fields[4]), _plain(fields[3]), 2)
    if words[0] == "cgroup" and controller in words[2].split(","):
        return Hierarchy(_plain(fields[4]), _plain(fields[3]), 1)
    return None


def _plain(name: str) -> str:
    """Space, tab, newline and backslash are written in octal."""
    for octal, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        name = name.replace(octal, letter)
    return name


def counter(text: bytes, name: bytes) -> int | None:
    """A number of a file of `NAME NUMBER` lines."""
    fields = (line.split() for line in text.splitlines())
    return next((int(words[1]) for words in fields if len(words) == 2 and words[0] == name), None)


def _number(path: str) -> int | None:
    words = _words(path)
    return int(words[0]) if words and words[0].isdigit() else None


def _words(path: str) -> list[str]:
    try:
        with open(path, encoding="ascii") as file:
            return file.read(256).split()
    except (OSError, UnicodeDecodeError):
        return []
