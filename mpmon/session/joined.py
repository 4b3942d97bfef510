"""The joined tables of all looks; rebuilt only after a look, so rounds without one share the same tuple objects."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from mpmon.model import (
    Blocked,
    Handle,
    JoinTarget,
    KernelObject,
    KnownChild,
    LockUse,
    SemaphoreUse,
    Stack,
    Task,
    Unknown,
)
from mpmon.rows import same_rows, shared
from mpmon.session.look import Look


class JoinedTables:
    """Rows in the order of pids; unchanged rows stay the same objects."""

    def __init__(self) -> None:
        self.blocked: tuple[Blocked, ...] = ()
        self.objects: tuple[KernelObject, ...] = ()
        self.handles: tuple[Handle, ...] = ()
        self._handles: tuple[tuple[Handle, ...], ...] = ()
        """`handles` by process: most of a large job's rows, and unchanged after most looks."""
        self.stacks: tuple[Stack, ...] = ()
        self.semaphores: tuple[SemaphoreUse, ...] = ()
        self.locks: tuple[LockUse, ...] = ()
        self.awaited: tuple[JoinTarget, ...] = ()
        self.remembered: tuple[KnownChild, ...] = ()
        self.tasks: tuple[Task, ...] = ()
        self.unknowns: tuple[Unknown, ...] = ()

    def join(self, looks_by_pid: Mapping[int, Look], process_unknowns: tuple[Unknown, ...]) -> None:
        """Rebuild all tables."""
        looks = [looks_by_pid[pid] for pid in sorted(looks_by_pid)]
        self.blocked = tuple(row for look in looks for row in look.blocked)
        handles = tuple(look.handles for look in looks)
        if not same_rows(handles, self._handles):
            self._handles, self.handles = handles, shared(tuple(chain.from_iterable(handles)), self.handles)
        self.stacks = tuple(row for look in looks for row in look.stacks or ())
        self.semaphores = shared(tuple(row for look in looks for row in look.semaphores), self.semaphores)
        self.locks = shared(tuple(row for look in looks for row in (*look.locks, *look.blocks)), self.locks)
        self.awaited = shared(tuple(row for look in looks for row in look.awaited), self.awaited)
        self.remembered = shared(tuple(row for look in looks for row in look.remembered), self.remembered)
        self.tasks = shared(tuple(row for look in looks for row in look.tasks), self.tasks)
        asked = ((look.semaphores_problem, look.locks_problem, look.tasks_problem) for look in looks)
        problems = [row for rows in asked for row in rows if row]
        self.unknowns = (*process_unknowns, *(row for look in looks for row in look.unknowns), *problems)
        # If several looks describe an object, the latest one counts.
        objects = {row.id: row for look in sorted(looks, key=lambda look: look.at) for row in look.objects}
        self.objects = shared(tuple(objects[name] for name in sorted(objects)), self.objects)
