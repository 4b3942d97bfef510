"""The names of the children of multiprocessing: their functions, and what their programs call them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from mpmon.diagnosis.roles.programs import printable
from mpmon.diagnosis.roles.role import Role
from mpmon.diagnosis.stacks.frames import bare, calls, is_machinery
from mpmon.model import Frame, KnownChild

PROCESS_FILE = "multiprocessing/process.py"


_BY_ITSELF = re.compile(r"\w*Process-\d+(:\d+)*")
"""The names that multiprocessing gives to processes which the program gives none: `Process-2`, `SpawnProcess-1:3`."""


def shown_name(given: str | None, target: str) -> str:
    """The name that the program gives a process; without one, its function, unless that is a library's own: `_run` tells less
    than any name.
    """
    return given if given and (target.startswith("_") or not _BY_ITSELF.fullmatch(given)) else target


def named_process(name: str, parent: int | None, rank: int | None = None) -> Role:
    """A child of multiprocessing whose function is unknown; `rank` is its parent's."""
    return Role(name=f"process {name}", kind="process", rank=rank, parent=parent, target_known=False)


def given_names(rows: Iterable[KnownChild]) -> dict[tuple[int, int], str]:
    """The names of children not yet reaped; the pid of a reaped child may belong to another process by now."""
    named = ((row, given_name(row)) for row in rows if row.returncode is None)
    return {(row.pid, row.child): name for row, name in named if name}


def given_name(row: KnownChild) -> str | None:
    """`Process.name`, short enough for a line; `None` if it is not plain text.

    Names that are not ASCII cannot be read from memory: they come out garbled.
    """
    return printable(row.name.strip()) or None


def target_of(frames: Iterable[Frame]) -> str | None:
    """The function a multiprocessing child was started with: the call right inside `Process.run`."""
    inner: Frame | None = None
    for frame in frames:
        if calls(frame, PROCESS_FILE, ("run",)):
            return bare(inner.function) if inner else None
        inner = frame if not is_machinery(frame.file) or inner is None else inner
    return None


def told_apart(found: Mapping[int, Role]) -> dict[int, Role]:
    """Distinguish processes that run the same function by the names that the program gives them."""
    count = Counter(role.name for role in found.values())
    return {pid: with_given(role) for pid, role in found.items() if role.given and count[role.name] > 1}


def with_given(role: Role) -> Role:
    """The role with the name of its `Process` as well, if it is not known by that alone."""
    known = role.given is None or role.name == f"process {role.given}"
    return role if known else msgspec.structs.replace(role, name=f"process {role.target} ({role.given})")
