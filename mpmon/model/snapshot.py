"""One round: all rows."""

from __future__ import annotations

from mpmon.model.collectives import Collective, FlightRecord
from mpmon.model.columns import Moment, Pid, Row
from mpmon.model.gpus import Gpu, GpuProcess, MigInstance
from mpmon.model.locks import JoinTarget, LockUse, SemaphoreUse
from mpmon.model.machines import Elsewhere, Figures, Node
from mpmon.model.objects import Handle, KernelObject, Mount
from mpmon.model.processes import Cgroup, Exit, KnownChild, Process
from mpmon.model.readings import ProbeReport, Unknown
from mpmon.model.sharing import (
    ExportRecord,
    ImportRecord,
    Limits,
    QueueRecord,
    QueueState,
    SharedFile,
    SharedMemory,
    SharedUse,
    ShimProcess,
)
from mpmon.model.stacks import NativeStack, Stack
from mpmon.model.tasks import Task
from mpmon.model.threads import Blocked, Spot, Thread


class Snapshot(Row, frozen=True, kw_only=True, eq=False):
    """All rows of one round. Compared by identity."""

    taken_at: Moment
    """The sampler's clock never steps back."""
    root_pid: Pid
    root_start_time: Moment
    host: str = ""
    addresses: tuple[str, ...] | None = None
    """IP addresses of the machine's network interfaces, without loopback; `None` if they were not read."""
    cpu_count: int = 1
    processes: tuple[Process, ...] = ()
    threads: tuple[Thread, ...] = ()
    exits: tuple[Exit, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    spots: tuple[Spot, ...] = ()
    objects: tuple[KernelObject, ...] = ()
    handles: tuple[Handle, ...] = ()
    outsiders: tuple[Handle, ...] = ()
    """Processes outside the job that have objects which threads of the job wait on."""
    semaphores: tuple[SemaphoreUse, ...] = ()
    locks: tuple[LockUse, ...] = ()
    awaited: tuple[JoinTarget, ...] = ()
    remembered: tuple[KnownChild, ...] = ()
    stacks: tuple[Stack, ...] = ()
    native_stacks: tuple[NativeStack, ...] = ()
    """For the threads of findings, or for all threads if requested."""
    tasks: tuple[Task, ...] = ()
    collectives: tuple[Collective, ...] = ()
    flight_records: tuple[FlightRecord, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    gpu_processes: tuple[GpuProcess, ...] = ()
    mig_instances: tuple[MigInstance, ...] = ()
    driver: str | None = None
    """Version of the NVIDIA driver; `None` without one."""
    shared_files: tuple[SharedFile, ...] = ()
    shared_uses: tuple[SharedUse, ...] = ()
    shared_memory: tuple[SharedMemory, ...] = ()
    limits: tuple[Limits, ...] = ()
    queues: tuple[QueueState, ...] = ()
    shims: tuple[ShimProcess, ...] = ()
    queue_records: tuple[QueueRecord, ...] = ()
    exports: tuple[ExportRecord, ...] = ()
    imports: tuple[ImportRecord, ...] = ()
    cgroups: tuple[Cgroup, ...] = ()
    mounts: tuple[Mount, ...] = ()
    nodes: tuple[Node, ...] = ()
    """The machines it was joined from; empty for a single machine."""
    figures: tuple[Figures, ...] = ()
    """One per machine, including machines whose processes are not in the snapshot."""
    elsewhere: tuple[Elsewhere, ...] = ()
    unknowns: tuple[Unknown, ...] = ()
    probes: tuple[ProbeReport, ...] = ()

    @property
    def root(self) -> Process | None:
        """The process the user named, `None` once it is gone."""
        return next((p for p in self.processes if p.pid == self.root_pid), None)
