"""In which folders the shim's files of a job may lie."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from mpmon.model import Process
from mpmon.probes.files import Proc
from mpmon.shim.places import VARIABLE, default_folders

RUNTIME_FOLDER = "XDG_RUNTIME_DIR"


class Home(NamedTuple):
    """How the files of one process are found."""

    key: tuple[int, int]
    """Its pid in its own pid namespace, and its start in clock ticks: the beginning of a file's name."""
    folders: tuple[str, ...]
    """As mpmon opens them."""


def home_of(proc: Proc, process: Process, start_ticks: int) -> Home:
    """Where a process writes: by its environment, else in the default places; seen through its own root when it has another."""
    uid = os.geteuid() if process.uid is None else process.uid
    folders = folders_of(proc, process.pid, uid, process.environment or {})
    return Home(key=(process.namespace_pid or process.pid, start_ticks), folders=folders)


def folders_of(proc: Proc, pid: int, uid: int, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The folders alone."""
    named = environment.get(VARIABLE)
    folders = (named,) if named else default_folders(uid, environment.get(RUNTIME_FOLDER))
    root = proc.path(pid, "root") if _sees_other_files(proc, pid) else ""
    return tuple(root + folder for folder in folders if os.path.isabs(folder))


def _sees_other_files(proc: Proc, pid: int) -> bool:
    """It lives in another mount namespace, a container's; false where that may not be known."""
    try:
        return proc.link(pid, "ns", "mnt") != proc.link("self", "ns", "mnt")
    except OSError:
        return False
