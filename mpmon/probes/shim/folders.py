"""Folders that may hold the shim's files of a job, and their required owner: only a process's user, or root, writes its files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from mpmon.model import Process
from mpmon.probes.door import Place, seen_by
from mpmon.probes.files import Proc
from mpmon.shim.places import VARIABLE, default_folders

RUNTIME_FOLDER = "XDG_RUNTIME_DIR"


class Home(NamedTuple):
    """Where to find the files of one process."""

    key: tuple[int, int]
    """Its pid in its own pid namespace, and its start in clock ticks: the beginning of a file's name."""
    user: int
    """The user who creates them."""
    view: str
    """Equal for all processes that see the same files at the same paths; empty where mpmon sees them too."""
    folders: tuple[Place, ...]


def home_of(proc: Proc, process: Process, start_ticks: int) -> Home:
    """Where a process writes: per its environment, else the default folders; reached through its own root if that differs."""
    user, view = user_of(process), _view(proc, process.pid)
    folders = _places(proc, process.pid, view, _paths(user, process.environment or {}))
    return Home(key=(process.namespace_pid or process.pid, start_ticks), user=user, view=view, folders=folders)


def user_of(process: Process) -> int:
    """The user who creates the files of a process."""
    return os.geteuid() if process.uid is None else process.uid


def folders_of(proc: Proc, pid: int, uid: int, environment: Mapping[str, str]) -> tuple[Place, ...]:
    """The folders alone."""
    return _places(proc, pid, _view(proc, pid), _paths(uid, environment))


def _paths(uid: int, environment: Mapping[str, str]) -> tuple[str, ...]:
    named = environment.get(VARIABLE)
    folders = (named,) if named else default_folders(uid, environment.get(RUNTIME_FOLDER))
    return tuple(filter(os.path.isabs, folders))


def _places(proc: Proc, pid: int, view: str, paths: tuple[str, ...]) -> tuple[Place, ...]:
    return tuple(seen_by(proc, pid, path) if view else Place(path) for path in paths)


def _view(proc: Proc, pid: int) -> str:
    """Not empty for a process in another mount namespace, such as a container's; empty where that cannot be read."""
    try:
        namespace = proc.link(pid, "ns", "mnt")
        return f"{namespace} {proc.link(pid, 'root')}" if namespace != proc.link("self", "ns", "mnt") else ""
    except OSError:
        return ""
