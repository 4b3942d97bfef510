"""The rows of one snapshot by the keys they are asked for: pid, thread, object, lock.

Joins only: what threads wait for, and whether they make progress, is judged in `job_state`.
"""

from __future__ import annotations

from functools import cached_property

from mpmon.diagnosis.state import joins
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.object_index import ObjectIndex
from mpmon.model import JoinTarget, LockUse, SemaphoreUse


class SnapshotIndex(ObjectIndex):
    """All of it: also semaphores between processes, locks within one, and who runs what is waited for."""

    @cached_property
    def uses(self) -> dict[str, list[SemaphoreUse]]:
        """Each process's use of a semaphore."""
        return self.memory.same("uses", joins.by_object, self.snapshot.semaphores)

    @cached_property
    def without_ledger(self) -> frozenset[int]:
        """Processes whose use of semaphores could not be read."""
        return frozenset(row.pid for row in self.snapshot.unknowns if row.table == "semaphores")

    @cached_property
    def _lock_uses(self) -> dict[str, list[LockUse]]:
        return self.memory.same("lock uses", joins.by_object, self.snapshot.locks)

    @cached_property
    def _wanted(self) -> dict[ThreadKey, LockUse]:
        return self.memory.same("wanted", joins.wanted, self.snapshot.locks)

    @cached_property
    def _asleep(self) -> dict[ThreadKey, LockUse]:
        return self.memory.same("asleep", joins.asleep, self.snapshot.locks)

    @cached_property
    def _permits(self) -> dict[ThreadKey, LockUse]:
        return self.memory.same("permits", joins.permits, self.snapshot.locks)

    @cached_property
    def _futexes(self) -> dict[ThreadKey, str]:
        """The first word that a thread waits on in futex(2)."""
        return self.memory.same("futexes", joins.futexes, self.snapshot.blocked)

    def lock_holders(self, lock: str | None) -> list[LockUse]:
        """The threads that hold a lock of their process, by their frames or by the lock's own word."""
        return [use for use in self._lock_uses.get(lock or "", ()) if use.holds]

    def block_wanted(self, key: ThreadKey) -> LockUse | None:
        """The `with` block that a thread polls to enter."""
        row = self._wanted.get(key)
        return row if row and row.of_block else None

    def block_holders(self, key: ThreadKey) -> list[LockUse]:
        """The threads that are in that block."""
        row = self.block_wanted(key)
        return self.lock_holders(row.object) if row else []

    def permit_wanted(self, key: ThreadKey) -> LockUse | None:
        """The semaphore of its process that a thread waits for."""
        return self._permits.get(key)

    def seen_inside(self, key: ThreadKey) -> tuple[ThreadKey, ...]:
        """The threads in blocks of that name, if a thread sleeps on its way into one; the blocks may be of different objects."""
        row = self._asleep.get(key)
        uses = self.lock_holders(row.object) if row else ()
        return tuple(dict.fromkeys((use.pid, use.tid) for use in uses))

    def lock_waiters(self, lock: str | None) -> list[LockUse]:
        """The threads that wait for a lock of their process, by their frames."""
        return [use for use in self._lock_uses.get(lock or "", ()) if not (use.holds or use.asleep)]

    def wanted_lock(self, key: ThreadKey) -> str | None:
        """The lock of its own process that a thread waits for."""
        row = self._wanted.get(key)
        return row.object if row else self._futexes.get(key)

    def holders_before_fork(self, pid: int, lock: str | None) -> list[LockUse]:
        """Holders of a lock that a child copied at fork: the parent's threads that hold the lock at the same address; or,
        if the lock names an owner that is not a thread of the child, the child's waiters.
        """
        if lock is None or not self.is_forked(pid):
            return []
        lost = [use for use in self.lock_waiters(lock) if use.owner_missing]
        return lost or self.lock_holders(lock.replace(f":{pid}:", f":{self.processes[pid].ppid}:"))

    @cached_property
    def _awaited(self) -> dict[ThreadKey, JoinTarget]:
        return self.memory.same("awaited", joins.by_thread, self.snapshot.awaited)

    def awaited(self, key: ThreadKey) -> ThreadKey | None:
        """The thread that a joining thread joins, or that runs the task whose result is waited for."""
        row = self._awaited.get(key)
        return (row.pid, row.by_tid) if row and row.by_tid else None

    def queued_for(self, key: ThreadKey) -> tuple[ThreadKey, ...]:
        """The threads of the executor in whose queue the task is whose result a thread waits for."""
        row = self._awaited.get(key)
        return tuple((row.pid, tid) for tid in row.queued_for) if row and row.kind == "future" else ()

    def is_full(self, key: ThreadKey) -> bool:
        """The thread is in a task of an executor whose threads all are, while others wait in its queue."""
        row = self._awaited.get(key)
        return row is not None and row.kind == "task"

    def group_of(self, key: ThreadKey) -> tuple[int, ...]:
        """The ranks of the process group of a thread's collective; empty if that is unknown."""
        row = self._awaited.get(key)
        return row.members if row else ()

    def group_name(self, key: ThreadKey) -> str:
        """The group's name, common to all ranks; empty if it is unknown."""
        row = self._awaited.get(key)
        return row.group if row else ""

    def is_of_group(self, one: ThreadKey, other: ThreadKey) -> bool | None:
        """Whether two threads' collectives belong to one process group; `None` if that is unknown."""
        rows = self._awaited.get(one), self._awaited.get(other)
        if not all(row and row.members for row in rows):
            return None
        names = {row.group for row in rows if row and row.group}
        return len({row.members for row in rows if row}) == 1 and len(names) < 2

    def asks_for_work(self, key: ThreadKey) -> bool:
        """A sleeping thread's own code may be in `Work.wait()` of torch."""
        row = self._awaited.get(key)
        return row is not None and row.kind == "work"
