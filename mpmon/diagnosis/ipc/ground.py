"""The joins over one snapshot that the other modules here use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property

from mpmon.diagnosis.findings import ProcessView
from mpmon.diagnosis.humanize import with_pid
from mpmon.diagnosis.roles import HELPERS, WORKERS, Role
from mpmon.model import (
    Blocked,
    ExportRecord,
    Handle,
    ImportRecord,
    KernelObject,
    Process,
    QueueRecord,
    SemaphoreUse,
    SharedFile,
    ShimProcess,
    Snapshot,
    Stack,
)

_NUMBERED = (*sorted(WORKERS), "rank", "process")

OTHER = Role(name="other", kind="other")


class Ground:
    """Everything is computed when first asked for."""

    def __init__(self, snapshot: Snapshot, roles: Mapping[int, Role], parts: Mapping[str, str]) -> None:
        """`parts` that queues were seen to have in a library, by their pipes."""
        self.snapshot = snapshot
        self.parts = parts
        self.now = snapshot.taken_at
        self.roles = roles
        self.processes: dict[int, Process] = {row.pid: row for row in snapshot.processes}

    def is_alive(self, pid: int) -> bool:
        """In the job and not a zombie."""
        return pid in self.processes and not self.processes[pid].ended

    def role(self, pid: int) -> Role:
        """What a process is in the job."""
        return self.roles.get(pid, OTHER)

    def who(self, pid: int) -> str:
        """`dataloader worker 1 (pid 4121)`."""
        role = self.role(pid)
        return f"pid {pid}" if role.kind in ("other", "subprocess") else with_pid(role.name, pid)

    def is_helper(self, pid: int) -> bool:
        """It inherited its parent's objects, but does not use them."""
        return self.role(pid).kind in HELPERS

    @cached_property
    def holders(self) -> dict[str, list[Handle]]:
        """Processes that have an object open or mapped."""
        found: dict[str, list[Handle]] = defaultdict(list)
        for handle in self.snapshot.handles:
            found[handle.object].append(handle)
        return found

    @cached_property
    def objects(self) -> dict[str, KernelObject]:
        """What threads wait on, by id."""
        return {row.id: row for row in self.snapshot.objects}

    @cached_property
    def uses(self) -> dict[str, list[SemaphoreUse]]:
        """Each process's part in a semaphore that a thread waits for."""
        found: dict[str, list[SemaphoreUse]] = defaultdict(list)
        for use in self.snapshot.semaphores:
            found[use.object].append(use)
        return found

    @cached_property
    def stacks(self) -> dict[tuple[int, int], Stack]:
        """Stacks by thread."""
        return {(row.pid, row.tid): row for row in self.snapshot.stacks}

    @cached_property
    def waiting(self) -> dict[str, list[Blocked]]:
        """Threads that wait, by what they wait on."""
        found: dict[str, list[Blocked]] = defaultdict(list)
        for row in self.snapshot.blocked:
            for name in row.waits_on:
                found[name].append(row)
        return found

    @cached_property
    def outside(self) -> frozenset[str]:
        """Handles of processes outside the job."""
        return frozenset(row.object for row in self.snapshot.outsiders if row.pid not in self.processes)

    @cached_property
    def counts(self) -> dict[str, dict[int, int]]:
        """Reference counts by slot, of each refcounter file."""
        return {row.id: dict(row.slots) for row in self.snapshot.shared_files if row.kind == "refcounter"}

    @cached_property
    def shims(self) -> dict[int, ShimProcess]:
        """Processes that have the shim, by pid."""
        return {row.pid: row for row in self.snapshot.shims}

    @cached_property
    def records(self) -> dict[str, list[QueueRecord]]:
        """The shim's records, by queue."""
        found: dict[str, list[QueueRecord]] = defaultdict(list)
        for row in self.snapshot.queue_records:
            found[row.object].append(row)
        return found

    @cached_property
    def sent(self) -> dict[tuple[str, int], ExportRecord]:
        """Sent transfers by refcounter and slot."""
        return {(row.file, row.slot): row for row in self.snapshot.exports}

    @cached_property
    def received(self) -> dict[tuple[str, int], list[ImportRecord]]:
        """Received transfers by refcounter and slot."""
        found: dict[tuple[str, int], list[ImportRecord]] = defaultdict(list)
        for row in self.snapshot.imports:
            found[row.file, row.slot].append(row)
        return found

    @cached_property
    def named(self) -> frozenset[str]:
        """Refcounters that a shim has recorded."""
        return frozenset(row.file for row in (*self.snapshot.exports, *self.snapshot.imports))

    @cached_property
    def refcounters(self) -> dict[str, SharedFile]:
        """Files of reference counts by name."""
        rows = (row for row in self.snapshot.shared_files if row.kind == "refcounter")
        return {row.path.rpartition("/")[2]: row for row in rows}

    @cached_property
    def inside(self) -> dict[int, int]:
        """Pids by the pids that processes have in their own namespaces."""
        return {row.namespace_pid or row.pid: row.pid for row in self.snapshot.processes}

    @cached_property
    def users(self) -> dict[str, list[int]]:
        """Processes that have a torch file mapped, by its id."""
        found: dict[str, list[int]] = defaultdict(list)
        for use in self.snapshot.shared_uses:
            if use.maps:
                found[use.object].append(use.pid)
        return found

    @cached_property
    def with_context(self) -> frozenset[int]:
        """Processes with a CUDA context, by the driver."""
        return frozenset(row.pid for row in self.snapshot.gpu_processes if "pid" not in row.reasons)


def roles_of(views: Iterable[ProcessView]) -> dict[int, Role]:
    """The roles that a diagnosis names."""
    return {view.pid: Role(name=view.role, kind=_kind(view.role), rank=view.rank, parent=view.parent) for view in views}


def _kind(name: str) -> str:
    return next((kind for kind in _NUMBERED if name.startswith(f"{kind} ")), name)
