"""Joins of one table each: pure functions of its rows, remade only when the table has changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mpmon.diagnosis.roles import Role
from mpmon.diagnosis.stacks.natives import NativeFact, native_fact
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.model import Blocked, Handle, KernelObject, KnownChild, LockUse, NativeStack, Stack


def ranks(roles: Mapping[int, Role]) -> list[int]:
    """The pids of the ranks."""
    return [pid for pid, role in roles.items() if role.is_rank]


def by_thread(rows: Iterable[Any]) -> dict[ThreadKey, Any]:
    """One row by thread."""
    return {(row.pid, row.tid): row for row in rows}


def in_python(rows: Iterable[Stack]) -> dict[ThreadKey, Stack]:
    """Stacks by thread, of those that are in Python code."""
    return {(row.pid, row.tid): row for row in rows if is_in_python(row)}


def is_in_python(row: Stack) -> bool:
    """Or about to be, as a thread that has just been started; or the main thread, which may have left the program's code."""
    return bool(row.frames) or row.active or row.tid == row.pid


def native_facts(rows: Iterable[NativeStack]) -> dict[ThreadKey, NativeFact]:
    """What C and C++ frames tell, by thread."""
    facts = ((row, native_fact(row)) for row in rows)
    return {(row.pid, row.tid): fact for row, fact in facts if fact}


def by_object(rows: Iterable[Any]) -> dict[str, list[Any]]:
    """All rows by object."""
    found: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        found[row.object].append(row)
    return found


def by_id(rows: Iterable[KernelObject]) -> dict[str, KernelObject]:
    """Kernel objects by id."""
    return {row.id: row for row in rows}


def locked_files(rows: Iterable[KernelObject]) -> tuple[KernelObject, ...]:
    """Files that some process has locked."""
    return tuple(row for row in rows if row.kind == "file lock" and row.holders)


def held_by(rows: Iterable[Handle]) -> dict[int, frozenset[str]]:
    """The ids of what each process has open or mapped."""
    found: dict[int, set[str]] = defaultdict(set)
    for row in rows:
        found[row.pid].add(row.object)
    return {pid: frozenset(names) for pid, names in found.items()}


def wanted(rows: Sequence[LockUse]) -> dict[ThreadKey, LockUse]:
    """What each thread waits for."""
    return {(row.pid, row.tid): row for row in reversed(rows) if not (row.holds or row.asleep or row.of_permits)}


def permits(rows: Sequence[LockUse]) -> dict[ThreadKey, LockUse]:
    """The semaphore that each thread waits for."""
    return {(row.pid, row.tid): row for row in rows if row.of_permits and not row.holds}


def asleep(rows: Sequence[LockUse]) -> dict[ThreadKey, LockUse]:
    """What each thread sleeps before."""
    return {(row.pid, row.tid): row for row in rows if row.asleep}


def futexes(rows: Iterable[Blocked]) -> dict[ThreadKey, str]:
    """The first word that each thread waits on in futex(2)."""
    words = (((row.pid, row.tid), name) for row in rows for name in reversed(row.waits_on) if name.startswith("futex:"))
    return dict(words)


def by_child(rows: Iterable[KnownChild]) -> dict[int, KnownChild]:
    """Remembered children by their pid."""
    return {row.child: row for row in rows}


def ends_by_parent(rows: Iterable[KnownChild]) -> dict[int, list[KnownChild]]:
    """Those that ended and were reaped, by parent."""
    found: dict[int, list[KnownChild]] = defaultdict(list)
    for row in rows:
        if row.returncode is not None:
            found[row.pid].append(row)
    return found


def clients(roles: Mapping[int, Role]) -> dict[int, list[int]]:
    """Pids by the process they work for."""
    found: dict[int, list[int]] = defaultdict(list)
    for pid, role in roles.items():
        if role.parent is not None:
            found[role.parent].append(pid)
    return found


def threads_by_pid(rows: Iterable[Stack]) -> dict[int, list[ThreadKey]]:
    """The Python threads of each process."""
    found: dict[int, list[ThreadKey]] = defaultdict(list)
    for row in rows:
        found[row.pid] += [(row.pid, row.tid)] if is_in_python(row) else []
    return found


def waiters(rows: Sequence[Blocked]) -> dict[str, frozenset[int]]:
    """The processes that wait on each object, by its id."""
    found: dict[str, set[int]] = defaultdict(set)
    for row in rows:
        for name in row.waits_on:
            found[name].add(row.pid)
    return {name: frozenset(pids) for name, pids in found.items()}
