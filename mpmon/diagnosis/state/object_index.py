"""The kernel objects of one snapshot: who has them open, and who waits on them."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

from mpmon.diagnosis.state import joins
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.thread_index import ThreadIndex
from mpmon.model import NAMELESS_CALLS, Handle, KernelObject, Mount, QueueState


class ObjectIndex(ThreadIndex):
    """Its kernel objects."""

    @cached_property
    def objects(self) -> dict[str, KernelObject]:
        """Kernel objects by id."""
        return self.memory.same("objects", joins.by_id, self.snapshot.objects)

    def waits_on(self, key: ThreadKey) -> tuple[KernelObject, ...]:
        """The kernel objects a thread waits on."""
        blocked = self.blocked.get(key)
        return tuple(self.objects[name] for name in blocked.waits_on if name in self.objects) if blocked else ()

    @cached_property
    def waiters(self) -> dict[str, frozenset[int]]:
        """The processes with a thread that waits on an object, by its id."""
        return self.memory.same("waiters", joins.waiters, self.snapshot.blocked)

    @cached_property
    def silent_mounts(self) -> dict[str, Mount]:
        """File systems whose server does not respond, by the id of the object that threads wait on."""
        return {f"mount:{row.device}": row for row in self.snapshot.mounts if row.unanswered_since is not None}

    def silent_mount(self, key: ThreadKey) -> Mount | None:
        """The file system a thread waits for, if it does not respond.

        If the call does not name the file system, it must be the only one that does not respond.
        """
        blocked = self.blocked.get(key)
        if blocked is None or not self.silent_mounts:
            return None
        found = [self.silent_mounts[name] for name in blocked.waits_on if name in self.silent_mounts]
        return found[0] if found and (blocked.syscall not in NAMELESS_CALLS or len(found) == 1) else None

    def names_mount(self, key: ThreadKey) -> bool:
        """The thread's call names a file on the file system it waits for, or the thread waits for a page of a mapped file."""
        blocked = self.blocked.get(key)
        return blocked is not None and blocked.syscall not in NAMELESS_CALLS - {None}

    @cached_property
    def queues(self) -> dict[str, QueueState]:
        """Queues of multiprocessing by their pipe."""
        return {row.object: row for row in self.snapshot.queues}

    @cached_property
    def holders(self) -> dict[str, list[Handle]]:
        """Who has an object open or mapped."""
        return self.memory.same("holders", joins.by_object, self.snapshot.handles)

    @cached_property
    def held_by(self) -> dict[int, frozenset[str]]:
        """What a process has open or mapped."""
        return self.memory.same("held by", joins.held_by, self.snapshot.handles)

    @cached_property
    def accepting(self) -> dict[int, list[ThreadKey]]:
        """The threads of each process that wait for connections, and perhaps for more."""
        found: dict[int, list[ThreadKey]] = defaultdict(list)
        listening = {item.id for item in self.snapshot.objects if item.listens}
        for row in self.snapshot.blocked if listening else ():
            if not listening.isdisjoint(row.waits_on):
                found[row.pid].append((row.pid, row.tid))
        return found

    @cached_property
    def outsiders(self) -> dict[str, list[Handle]]:
        """Processes outside the job that have an object."""
        found: dict[str, list[Handle]] = defaultdict(list)
        for handle in self.snapshot.outsiders:
            if handle.pid not in self.processes:
                found[handle.object].append(handle)
        return found

    @cached_property
    def without_handles(self) -> frozenset[int]:
        """Processes whose open files could not be read."""
        return frozenset(row.pid for row in self.snapshot.unknowns if row.table == "handles" and not row.gone)

    @cached_property
    def locked_files(self) -> tuple[KernelObject, ...]:
        """Files that some process has locked."""
        return self.memory.same("locked files", joins.locked_files, self.snapshot.objects)
