"""The report as one JSON document: schema `mpmon.report/1`, made of the same rows as recordings.

An unknown number is `null`, and the reason is in `unchecked`, in `probes` or in the row's `reasons`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

import msgspec

from mpmon import __version__
from mpmon.codec import REPORT_SCHEMA, encode
from mpmon.diagnosis import ipc
from mpmon.diagnosis.findings import Bottleneck, Finding, Observation, Pace, Pause, ProcessView, Remark, Unchecked
from mpmon.diagnosis.gpus import Ordinal, device_of, ordinals
from mpmon.diagnosis.hosts import Hosts, bare
from mpmon.diagnosis.ipc import ExportView, MemoryView, QueueView
from mpmon.diagnosis.stacks import merging
from mpmon.diagnosis.stacks.natives import native_fact
from mpmon.model import (
    Cgroup,
    Figures,
    Frame,
    Gpu,
    GpuProcess,
    MigInstance,
    NativeFrame,
    Node,
    Pid,
    ProbeReport,
    Process,
    Row,
    Snapshot,
    Task,
)


class RootRow(Row, frozen=True, kw_only=True):
    """The process the user named."""

    pid: Pid
    start_time: float


class FindingRow(Row, frozen=True, kw_only=True, omit_defaults=False):
    """A finding as the report shows it."""

    cause: str
    certainty: str
    doubts: tuple[str, ...]
    summary: str
    since: str | None
    suspects: tuple[object, ...]
    waiters: tuple[object, ...]
    chain: tuple[object, ...]
    evidence: tuple[str, ...]
    advice: tuple[str, ...]
    threads: tuple[object, ...]


class RemarkRow(Row, frozen=True, kw_only=True, omit_defaults=False):
    """A remark as the report shows it."""

    topic: str
    summary: str
    pids: tuple[Pid, ...]
    gpu_uuids: tuple[str, ...]
    since: str | None
    evidence: tuple[str, ...]
    advice: tuple[str, ...]


class ProcessRow(Row, frozen=True, kw_only=True, omit_defaults=False):
    """A process with its role."""

    pid: Pid
    ppid: Pid
    host: str | None
    """Its machine, in a job on several."""
    start_time: float
    role: str
    rank: int | None
    local_rank: int | None
    world_size: int | None
    name: str
    cmdline: tuple[str, ...] | None
    state: str
    exit_code: int | None
    cpu_percent: float | None
    rss_bytes: int
    pss_bytes: int | None
    threads: int
    does: str
    mood: str


class GpuProcessRow(GpuProcess, frozen=True, kw_only=True, omit_defaults=False):
    """What one process uses of one device, and that device's CUDA number there."""

    cuda: int | None
    """The N of cuda:N, a hint: by the process's environment at its start."""


class ProbeRow(Row, frozen=True, kw_only=True, omit_defaults=False):
    """How one probe went."""

    name: str
    ok: bool
    seconds: float
    problem: str | None


class FrameRow(Row, frozen=True, kw_only=True):
    """One frame of a thread: a Python frame with file and line, or a C or C++ frame with its library."""

    language: str
    """`python` or `native`."""
    function: str | None
    """The symbol of a native frame; `null` if its library does not name it."""
    name: str | None = None
    """The readable name of a native frame."""
    file: str | None = None
    line: int | None = None
    library: str | None = None
    build_id: str | None = None
    offset: int | None = None
    how: str | None = None
    proof: int | None = None


class ThreadRow(Row, frozen=True, kw_only=True, omit_defaults=False):
    """All frames of one thread that a finding is about, innermost first."""

    pid: Pid
    tid: Pid
    end: str
    """`start` if all native frames were found."""
    why: str | None
    agrees: bool
    """False if the Python frames could not be merged with the native ones and are listed before them."""
    calls: str | None
    """The function of a library that the innermost Python code has called."""
    waits_for: str | None
    """What that function waits for, if it is known."""
    certain: bool | None
    """Whether no relevant frame had to be searched for and the thread slept: in a running thread the innermost frame is a
    `sample`.
    """
    frames: tuple[FrameRow, ...]


class TaskRow(Row, frozen=True, kw_only=True, omit_defaults=False):
    """One task of an event loop of asyncio; see `mpmon.model.Task`."""

    pid: Pid
    tid: Pid
    id: str
    name: str
    waits: str | None
    waits_on: str | None
    tasks: tuple[str, ...]
    child: Pid | None
    timed: bool
    holds: tuple[str, ...]
    frames: tuple[FrameRow, ...]
    """Its coroutines, innermost first."""


class PauseRow(Row, frozen=True, kw_only=True, omit_defaults=False):
    """The last period in which the main threads of all ranks but one did not run."""

    began: str | None
    ended: str | None
    ran: tuple[int, ...]
    """The process that ran."""


class Report(Row, frozen=True, kw_only=True, omit_defaults=False):
    """The whole document."""

    schema: str
    mpmon: str
    host: str
    taken_at: str
    watched_s: float
    root: RootRow
    verdict: str
    since: str | None
    because: str
    findings: tuple[FindingRow, ...]
    remarks: tuple[RemarkRow, ...]
    unchecked: tuple[Unchecked, ...]
    processes: tuple[ProcessRow, ...]
    gpus: tuple[Gpu, ...]
    gpu_processes: tuple[GpuProcessRow, ...]
    mig_instances: tuple[MigInstance, ...]
    driver: str | None
    cgroups: tuple[Cgroup, ...]
    nodes: tuple[Node, ...] = ()
    """The machines of a job on several."""
    figures: tuple[Figures, ...] = ()
    """Health figures of each machine."""
    queues: tuple[QueueView, ...] = ()
    ipc_exports: tuple[ExportView, ...] = ()
    shared_memory: MemoryView | None = None
    native_stacks: tuple[ThreadRow, ...] = ()
    tasks: tuple[TaskRow, ...] = ()
    paces: tuple[Pace, ...] = ()
    bottleneck: Bottleneck | None = None
    pause: PauseRow | None = None
    probes: tuple[ProbeRow, ...] = ()


def document(observation: Observation) -> Report:
    """The report of one observation."""
    snapshot, diagnosis = observation.snapshot, observation.diagnosis
    views = {view.pid: view for view in diagnosis.processes}
    shared = ipc.of(observation)
    report = Report(
        schema=REPORT_SCHEMA, mpmon=__version__, host=snapshot.host, taken_at=_moment(snapshot.taken_at) or "",
        watched_s=round(observation.watched_s, 3),
        root=RootRow(pid=snapshot.root_pid, start_time=snapshot.root_start_time),
        verdict=diagnosis.verdict.value, since=_moment(diagnosis.since), because=diagnosis.because,
        findings=tuple(map(_finding, diagnosis.findings)), remarks=tuple(map(_remark, diagnosis.remarks)),
        unchecked=diagnosis.unchecked,
        processes=tuple(_process(process, views.get(process.pid)) for process in snapshot.processes),
        gpus=snapshot.gpus, gpu_processes=_gpu_processes(snapshot),
        mig_instances=snapshot.mig_instances, driver=snapshot.driver, cgroups=snapshot.cgroups, nodes=snapshot.nodes,
        figures=snapshot.figures, queues=shared.queues, ipc_exports=shared.exports, shared_memory=shared.memory,
        native_stacks=tuple(_threads(snapshot)), tasks=tuple(map(_task, snapshot.tasks)),
        paces=diagnosis.paces, bottleneck=diagnosis.bottleneck,
        pause=_pause(diagnosis.pause) if diagnosis.pause else None, probes=tuple(map(_probe, snapshot.probes)),
    )  # fmt: skip
    return bare(report, Hosts(snapshot)) if snapshot.nodes else report


def render(observation: Observation) -> str:
    """The document as one line of JSON."""
    return encode(document(observation)).decode()


def render_pretty(observation: Observation) -> str:
    """The document as indented JSON."""
    return msgspec.json.format(encode(document(observation)), indent=2).decode()


def _finding(finding: Finding) -> FindingRow:
    return FindingRow(
        cause=finding.cause, certainty=finding.certainty.value, doubts=finding.doubts,
        summary=finding.summary, since=_moment(finding.since),
        suspects=finding.suspects, waiters=finding.waiters, chain=finding.chain,
        evidence=finding.evidence, advice=finding.advice, threads=finding.threads,
    )  # fmt: skip


def _remark(remark: Remark) -> RemarkRow:
    return RemarkRow(
        topic=remark.topic, summary=remark.summary, pids=remark.pids, gpu_uuids=remark.gpu_uuids,
        since=_moment(remark.since), evidence=remark.evidence, advice=remark.advice,
    )  # fmt: skip


def _pause(pause: Pause) -> PauseRow:
    return PauseRow(began=_moment(pause.began), ended=_moment(pause.ended), ran=pause.ran)


def _process(process: Process, view: ProcessView | None) -> ProcessRow:
    return ProcessRow(
        pid=process.pid, ppid=process.ppid, host=process.host or None,
        start_time=process.start_time, role=view.role if view else "other",
        rank=view.rank if view else None, local_rank=view.local_rank if view else None,
        world_size=view.world_size if view else None, name=process.name, cmdline=process.cmdline,
        state=process.state, exit_code=process.exit_code,
        cpu_percent=view.cpu_percent if view else None, rss_bytes=process.rss_bytes,
        pss_bytes=process.pss_bytes, threads=process.threads,
        does=view.does if view else "", mood=view.mood if view else "",
    )  # fmt: skip


def _threads(snapshot: Snapshot) -> Iterator[ThreadRow]:
    python = {(row.pid, row.tid): row for row in snapshot.stacks} if snapshot.native_stacks else {}
    for row in snapshot.native_stacks:
        thread = merging.merged_thread(row, python.get((row.pid, row.tid)))
        frames = tuple(map(_frame, thread.frames))
        fact = native_fact(row)
        yield ThreadRow(
            pid=row.pid, tid=row.tid, end=row.end, why=row.why, agrees=thread.agrees, frames=frames,
            calls=(fact.called or None) if fact else None, waits_for=fact.wait.waits_for if fact and fact.wait else None,
            certain=fact.certain if fact else None,
        )  # fmt: skip


def _task(row: Task) -> TaskRow:
    return TaskRow(
        pid=row.pid, tid=row.tid, id=row.object, name=row.name, waits=row.waits, waits_on=row.waits_on, tasks=row.tasks,
        child=row.child, timed=row.timed, holds=row.holds, frames=tuple(map(_frame, row.frames)),
    )  # fmt: skip


def _frame(frame: Frame | NativeFrame) -> FrameRow:
    if isinstance(frame, Frame):
        return FrameRow(language="python", function=frame.function, file=frame.file, line=frame.line)
    return FrameRow(
        language="native", function=frame.function, name=frame.name, library=frame.library,
        build_id=frame.build_id, offset=frame.offset, how=frame.how, proof=frame.proof,
    )  # fmt: skip


def _gpu_processes(snapshot: Snapshot) -> tuple[GpuProcessRow, ...]:
    numbers = ordinals(snapshot)
    return tuple(_gpu_process(row, numbers[row.pid, device_of(row)]) for row in snapshot.gpu_processes)


def _gpu_process(row: GpuProcess, cuda: Ordinal) -> GpuProcessRow:
    facts = msgspec.structs.asdict(row)
    if cuda.number is None:
        facts["reasons"] = {**row.reasons, "cuda": cuda.reason}
    return GpuProcessRow(**facts, cuda=cuda.number)


def _probe(row: ProbeReport) -> ProbeRow:
    return ProbeRow(name=row.name, ok=row.ok, seconds=row.seconds, problem=row.problem)


def _moment(seconds: float | None) -> str | None:
    """ISO 8601 in UTC, milliseconds."""
    if seconds is None:
        return None
    text = datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
