"""One observation with its rows joined, so that panels look things up instead of searching.

Joins are made when first asked for: a panel that is not shown costs nothing.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import structs

from mpmon.diagnosis import ipc
from mpmon.diagnosis.findings import ProcessView
from mpmon.diagnosis.gpus import Ordinal, branches, device_of, ordinals
from mpmon.diagnosis.gpus.shares import is_named, lineage
from mpmon.diagnosis.hosts import Hosts
from mpmon.diagnosis.roles.role import RANK
from mpmon.diagnosis.throughput.rates import Rates, Teller, collective_rates, rates
from mpmon.model import LATE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpmon.diagnosis.findings import Diagnosis, Finding, Observation
    from mpmon.diagnosis.gpus import Device, Share
    from mpmon.diagnosis.ipc import Ipc
    from mpmon.model import Blocked, GpuProcess, Handle, KernelObject, NativeStack, Node, Process, Snapshot, Stack


_JOINS = ("stacks", "native_stacks", "blocked", "objects", "handles")
"""Those that are made of the one table of that name."""


class Scene:
    """What every panel shows. Compared by identity; never changed after it was made."""

    def __init__(self, observation: Observation, before: Scene | None = None) -> None:
        """Joins of tables that are those of the scene `before` are taken over from it, and what was before the same hang."""
        self.observation = observation
        self.snapshot: Snapshot = observation.snapshot
        self.diagnosis: Diagnosis = observation.diagnosis
        if before is not None:
            same = [name for name in _JOINS if getattr(before.snapshot, name) is getattr(self.snapshot, name)]
            same += ["rates_before"] if before.since_found == self.since_found else []
            vars(self).update({name: vars(before)[name] for name in same if name in vars(before)})

    @property
    def now(self) -> float:
        """The moment all ages count to: that of the snapshot, so that a replay shows the ages of then."""
        return self.snapshot.taken_at

    def since(self, moment: float | None) -> float | None:
        """How long ago a moment was, seconds."""
        return None if moment is None else max(0.0, self.now - moment)

    @cached_property
    def over(self) -> bool:
        """Every process of the job has ended."""
        rows = self.snapshot.processes
        return bool(rows or self.snapshot.exits) and all(row.ended for row in rows)

    @property
    def finding(self) -> Finding | None:
        """The strongest finding: what mpmon stands for."""
        return next(iter(self.diagnosis.findings), None)

    @cached_property
    def hosts(self) -> Hosts:
        """The machines, of a job on several, and which pids processes have there."""
        return Hosts(self.snapshot)

    @cached_property
    def processes(self) -> dict[int, Process]:
        """Process by pid: those that live, and those that ended while mpmon watched, whose last row may be of a living one."""
        ended = {e.pid: structs.replace(e.process, state="X", threads=0) for e in self.snapshot.exits}
        return ended | {p.pid: p for p in self.snapshot.processes}

    @cached_property
    def views(self) -> dict[int, ProcessView]:
        """What the diagnosis makes of each process; one it says nothing about goes by its name."""
        said = {v.pid: v for v in self.diagnosis.processes}
        for process in self.snapshot.processes:
            if process.pid not in said:
                said[process.pid] = ProcessView(pid=process.pid, role=process.name, kind="other", parent=process.ppid)
        return said

    @cached_property
    def suspects(self) -> frozenset[int]:
        """Pids that must move first, of any finding."""
        return frozenset(s.pid for f in self.diagnosis.findings for s in f.suspects)

    @cached_property
    def slowest(self) -> frozenset[int]:
        """Pids of the rank that the others wait for most of the time."""
        found = self.diagnosis.bottleneck
        return frozenset(found.pids) if found and len(found.pids) < len(self.diagnosis.paces) else frozenset()

    @cached_property
    def waiters(self) -> dict[int, str]:
        """What each waiter waits for; the strongest finding has the word."""
        return {w.pid: w.waits_for for f in reversed(self.diagnosis.findings) for w in f.waiters}

    @property
    def first_suspect(self) -> int | None:
        """Whom the selection starts at: who must move first; where that one is dead, who waits for it and has a stack."""
        if self.finding is None:
            return None
        living = [suspect.pid for suspect in self.finding.suspects if not suspect.dead]
        waiting = [waiter.pid for waiter in self.finding.waiters]
        return next(iter((*living, *waiting, *(suspect.pid for suspect in self.finding.suspects))), None)

    @property
    def first_rank(self) -> int | None:
        """The living rank with the lowest number."""
        ranks = [(v.rank, v.pid) for v in self.views.values() if v.rank is not None and self.is_rank(v.pid)]
        return next((pid for _, pid in sorted(ranks) if not self.processes[pid].ended), None)

    @cached_property
    def stacks(self) -> dict[int, tuple[Stack, ...]]:
        """Stacks by pid, the main thread first."""
        found: defaultdict[int, list[Stack]] = defaultdict(list)
        for stack in self.snapshot.stacks:
            found[stack.pid].append(stack)
        return {pid: tuple(sorted(stacks, key=lambda s: (s.tid != pid, s.tid))) for pid, stacks in found.items()}

    @cached_property
    def native_stacks(self) -> dict[tuple[int, int], NativeStack]:
        """Frames of C, by pid and thread id, as far as they were read."""
        return {(row.pid, row.tid): row for row in self.snapshot.native_stacks}

    @cached_property
    def blocked(self) -> dict[int, dict[int, Blocked]]:
        """What the kernel says, by pid and thread id."""
        found: defaultdict[int, dict[int, Blocked]] = defaultdict(dict)
        for row in self.snapshot.blocked:
            found[row.pid][row.tid] = row
        return dict(found)

    def stacks_of(self, pid: int) -> tuple[Stack, ...]:
        """Stacks of one process, the main thread first."""
        return self.stacks.get(pid, ())

    def thread_name(self, pid: int, tid: int) -> str:
        """Python's name of a thread, else its number."""
        names = (stack.thread_name for stack in self.stacks_of(pid) if stack.tid == tid)
        return next(names, "") or str(tid)

    def blocked_of(self, pid: int) -> dict[int, Blocked]:
        """What the kernel says of one process, by thread id."""
        return self.blocked.get(pid, {})

    def handles_on(self, objects: tuple[str, ...]) -> list[Handle]:
        """Who holds one of a few objects open."""
        return [h for h in self.snapshot.handles if h.object in objects]

    @cached_property
    def objects(self) -> dict[str, KernelObject]:
        """Kernel object by its id."""
        return {o.id: o for o in self.snapshot.objects}

    @cached_property
    def handles(self) -> dict[str, tuple[Handle, ...]]:
        """Who holds an object open, by the object's id."""
        found: defaultdict[str, list[Handle]] = defaultdict(list)
        for handle in self.snapshot.handles:
            found[handle.object].append(handle)
        return {key: tuple(handles) for key, handles in found.items()}

    def handles_of(self, pid: int) -> tuple[Handle, ...]:
        """What one process holds open, by descriptor."""
        own = [h for h in self.snapshot.handles if h.pid == pid]
        return tuple(sorted(own, key=lambda h: (h.fd is None, h.fd or 0, h.object)))

    @cached_property
    def gpu_processes(self) -> dict[int, tuple[GpuProcess, ...]]:
        """What the driver attributes to each process; a pid of another namespace is none of ours."""
        found: defaultdict[int, list[GpuProcess]] = defaultdict(list)
        for row in self.snapshot.gpu_processes:
            if is_named(row):
                found[row.pid].append(row)
        return {pid: tuple(rows) for pid, rows in found.items()}

    @cached_property
    def gpu_users(self) -> dict[Device, tuple[GpuProcess, ...]]:
        """Who is on each device, the largest first, strangers to the job too; who was, where it does not answer."""
        found: defaultdict[Device, list[GpuProcess]] = defaultdict(list)
        for row in (*self.snapshot.gpu_processes, *self._last_gpu_users()):
            found[device_of(row)].append(row)
        return {key: tuple(sorted(rows, key=lambda r: -(r.memory_bytes or 0))) for key, rows in found.items()}

    def _last_gpu_users(self) -> Iterator[GpuProcess]:
        listed = {row.gpu_uuid for row in self.snapshot.gpu_processes}
        for gpu in self.snapshot.gpus:
            if gpu.problem is not None and gpu.uuid not in listed:
                moments = reversed(self.observation.trend)
                rounds = ([row for row in moment.gpu_processes if row.gpu_uuid == gpu.uuid] for moment in moments)
                yield from next(filter(None, rounds), ())

    def is_of_job(self, row: GpuProcess) -> bool:
        """Whether the driver's pid is that of a process of the job."""
        return is_named(row) and row.pid in self.processes

    @cached_property
    def parents(self) -> dict[int, int | None]:
        """Whom each process works for."""
        return {view.pid: view.parent for view in self.views.values()}

    @cached_property
    def gpu_branches(self) -> dict[int, tuple[Share, ...]]:
        """What a process and all who work for it use together, of each device."""
        return branches(self.snapshot.gpu_processes, self.parents)

    @cached_property
    def ipc(self) -> Ipc:
        """Queues, CUDA memory sent to others, shared memory."""
        return ipc.of(self.observation)

    @cached_property
    def rates(self) -> Rates:
        """How much goes through the queues."""
        return rates(self.observation.trend)

    @cached_property
    def collective_rates(self) -> dict[Teller, float]:
        """Collectives a second, by who told."""
        return collective_rates(self.observation.trend)

    @property
    def since_found(self) -> float | None:
        """When what is found began."""
        return self.finding.since if self.finding else None

    @cached_property
    def rates_before(self) -> Rates:
        """The same of the time before that; the trend forgets it, a scene after the other does not."""
        began = self.since_found
        return rates([row for row in self.observation.trend if began is not None and row.taken_at <= began])

    @cached_property
    def _ordinals(self) -> dict[tuple[int, Device], Ordinal]:
        return ordinals(self.snapshot)

    def ordinal(self, row: GpuProcess) -> Ordinal:
        """The N of cuda:N by which a process counts a device it is on."""
        return self._ordinals.get((row.pid, device_of(row)), Ordinal())

    @cached_property
    def gpu_index(self) -> dict[str, int]:
        """Number of a device by its UUID."""
        return {g.uuid: g.index for g in self.snapshot.gpus}

    def line_of(self, pid: int) -> tuple[int, ...]:
        """The process, whom it works for, whom that one works for, and so on."""
        return tuple(lineage(pid, self.parents))

    def rank_of(self, pid: int) -> int | None:
        """The rank a process is or works for."""
        ranks = (self.views[at].rank for at in self.line_of(pid))
        return next((rank for rank in ranks if rank is not None), None)

    def problem_of(self, probe: str) -> str | None:
        """What a probe has to say of its last run."""
        return next((report.problem for report in self.snapshot.probes if report.name == probe), None)

    def silent_s(self, node: Node) -> float | None:
        """For how long nothing was heard of a machine; `None` where that is too short to matter."""
        told_at = self.observation.told_at or self.now
        return None if node.heard_at is None else max(0.0, told_at - node.heard_at)

    @cached_property
    def late(self) -> frozenset[str]:
        """The machines whose agents are late: what is shown of them may be over."""
        return frozenset(node.host for node in self.snapshot.nodes if node.state == LATE)

    @cached_property
    def complaints(self) -> tuple[str, ...]:
        """What probes complain of for longer than one look, as the events tell it."""
        found: dict[str, str] = {}
        for event in self.observation.events:
            name = event.summary.partition(":")[0]
            if event.kind == "probe-failed":
                found[name] = event.summary
            elif event.kind == "probe-works":
                found.pop(name, None)
        return tuple(found.values())

    def reasons(self, table: str, pid: int) -> list[str]:
        """Why rows of a table are missing for a process."""
        return [u.reason for u in self.snapshot.unknowns if u.table == table and u.pid == pid]

    def role(self, pid: int) -> str:
        """The role of a process, or its pid when nothing is known of it."""
        view = self.views.get(pid)
        return view.role if view else f"process {self.hosts.pid(pid)}"

    def is_rank(self, pid: int) -> bool:
        """The process is a rank itself, rather than one that works for a rank."""
        return pid in self.views and self.views[pid].kind == RANK

    def who(self, pid: int) -> str:
        """A process by role and pid: "rank 1 (4102)"."""
        return f"{self.views[pid].role} ({self.hosts.pid(pid)})" if pid in self.views else self.role(pid)
