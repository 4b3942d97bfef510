"""What a diagnosis says: verdict, findings, suspects, and what could not be checked.

Words: a *culprit* is the real root blocker, a *suspect* is the one mpmon believes it is; a *waiter* only waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec

from mpmon.diagnosis.humanize import several
from mpmon.model import FlightRecord, Gpu, GpuProcess, Pid, QueueRecord, QueueState, Row, Snapshot, Spot

MOST_CAUSES = 6
"""Causes that are named in one line."""


class Verdict(Enum):
    """The state of the whole job."""

    HUNG = "hung"
    """A thread waits, and nothing that could unblock it has made progress."""
    SLOW = "slow"
    """A thread waits for one that makes progress, or will."""
    HEALTHY = "healthy"
    UNKNOWN = "unknown"
    """Too little could be read, or for too short a time."""


class Certainty(Enum):
    """How sure a finding is."""

    PROVED = "proved"
    """Every edge is exact, and a second sample found the same."""
    LIKELY = "likely"
    """One edge is inferred."""
    POSSIBLE = "possible"
    """A symptom only."""

    @property
    def rank(self) -> int:
        """Order, the strongest first."""
        return _CERTAINTIES.index(self)


_CERTAINTIES = list(Certainty)


class Place(Row, frozen=True, kw_only=True):
    """A line of Python."""

    function: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file.rpartition('/')[2]}:{self.line} in {self.function}"


class Suspect(Row, frozen=True, kw_only=True, omit_defaults=False):
    """One thread that blocks the others."""

    pid: Pid
    dead: bool = False
    role: str
    rank: int | None = None
    thread: str = "MainThread"
    tid: Pid | None = None
    frame: Place | None = None
    """The innermost line of the user's own code, else the innermost line."""
    end: str | None = None
    """How it ended: `killed by SIGKILL (9)`; `None` if it is alive."""
    host: str | None = None
    """Its machine, in a job on several; `mpmon.diagnosis.hosts` tells its pid there."""


class Waiter(Row, frozen=True, kw_only=True):
    """One process that only waits."""

    pid: Pid
    role: str
    waits_for: str
    host: str | None = None


class Link(Row, frozen=True, kw_only=True):
    """One step of the chain from a waiter to the suspect, for drawing."""

    pid: Pid
    role: str
    does: str
    """What it waits in, or what it is doing: `next batch`, `all_reduce`, `time.sleep`."""
    place: Place | None = None
    thread: str | None = None
    """Python's name of the thread, when it is not the main one."""
    basis: str | None = None
    """The source that identifies the wait's targets: `kernel`, `ledger`, `memory`, `frames`; `assumed` if they are merely
    candidates; `None` if it waits for nobody.
    """
    host: str | None = None


class Finding(Row, frozen=True, kw_only=True, omit_defaults=False):
    """A finding: this cause, these suspects, because of this evidence."""

    cause: str
    """An id of the taxonomy, e.g. `worker-stuck`."""
    certainty: Certainty
    doubts: tuple[str, ...] = ()
    """Why it is not proved; empty if it is."""
    summary: str
    suspects: tuple[Suspect, ...]
    waiters: tuple[Waiter, ...] = ()
    chain: tuple[Link, ...] = ()
    """From the goal to the first suspect."""
    evidence: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    since: float | None = None
    """When the suspect last moved, seconds since the epoch."""
    threads: tuple[Suspect, ...] = ()
    """The threads that one sentence describes together."""


class Remark(Row, frozen=True, kw_only=True, omit_defaults=False):
    """A warning that is not a hang: two ranks on one GPU, memory nobody frees, a full /dev/shm."""

    topic: str
    """`gpu-shared`, `ipc-leak` …: one per kind of remark."""
    summary: str
    pids: tuple[Pid, ...] = ()
    """The processes it is about, the most relevant first."""
    gpu_uuids: tuple[str, ...] = ()
    """The devices it is about."""
    since: float | None = None
    """Seconds since the epoch."""
    evidence: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()


class Event(Row, frozen=True, kw_only=True, omit_defaults=False):
    """Something that happened to the job, or to mpmon's observation of it."""

    at: float
    """The moment of the snapshot in which it was noticed, seconds since the epoch."""
    kind: str
    """`watch`, `born`, `restarted`, `died`, `hang-began`, `hang-ended`, `verdict`, `finding-began`, `finding-changed`,
    `finding-ended`, `remark-began`, `remark-ended`, `gpu-lost`, `gpu-back`, `xid`, `oom-kill`, `probe-failed`,
    `probe-works`, `bottleneck`, `job-ended`."""
    summary: str
    pids: tuple[Pid, ...] = ()
    bad: bool = False
    """It means trouble."""


class Unchecked(Row, frozen=True, kw_only=True):
    """A cause that could not be checked, and why."""

    cause: str
    reason: str


def by_reason(rows: Iterable[Unchecked]) -> list[str]:
    """The same for people, one line for each reason: `stacks of pid 7: permission denied (not decided: gil-held,
    worker-stuck)`.
    """
    causes: dict[str, list[str]] = {}
    for row in rows:
        causes.setdefault(row.reason, []).append(row.cause)
    return [f"{reason} (not decided: {several(found, MOST_CAUSES)})" for reason, found in causes.items()]


class ProcessView(Row, frozen=True, kw_only=True):
    """What mpmon makes of one process: its role and, in one line, its activity."""

    pid: Pid
    role: str
    kind: str
    """The role without its number or name, as in `Role.kind`."""
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    parent: Pid | None = None
    """Its parent in the job's tree: the process it works for, not always the kernel's parent."""
    target_known: bool = True
    """`False` for a child of multiprocessing not yet seen to run its function: a later sample may give it another role.
    """
    cpu_percent: float | None = None
    """Percent of one core, since the previous round."""
    does: str = ""
    """`waits for batch`, `idle`, `runs`, `asleep in download()` …"""
    mood: str = ""
    """`suspect`, `waiting`, `idle`, `working`, `stopped`, `dead`, or empty when unknown."""
    still_since: float | None = None
    """Since when its main thread has not run, seconds since the epoch."""


class Pause(Row, frozen=True, kw_only=True):
    """A period in which the main threads of all ranks but at most one did not run. Times are seconds since the epoch."""

    began: float
    ended: float
    ran: tuple[int, ...] = ()
    """Pid of the one rank that ran meanwhile; empty if none did."""


class Pace(Row, frozen=True, kw_only=True, omit_defaults=False):
    """The speed of one rank, and what its main thread spends its time on; an unknown number is `None`."""

    pid: int
    role: str
    rank: int | None = None
    batches_per_s: float | None = None
    """Batches taken from its DataLoader's workers."""
    collectives_per_s: float | None = None
    """Collectives begun, by its Flight Recorder."""
    samples: int = 0
    """In how many samples of the last minute, pauses excluded, its activity is known."""
    works: float | None = None
    """Share of these samples, 0 to 1, in which it computed, slept, or read or wrote a file itself."""
    waits_for_ranks: float | None = None
    """Share in which it waited in a collective."""
    waits_for_data: float | None = None
    """Share in which it waited for its next batch."""


class Bottleneck(Row, frozen=True, kw_only=True, omit_defaults=False):
    """Why a working job is not faster: the others wait for this rank, or all wait for their data."""

    pids: tuple[int, ...]
    """The rank, or all ranks."""
    what: str
    """`work` or `data`: what the others wait for it to do, or what it waits for itself."""
    place: Place | None = None
    """Where most samples found it at its own work."""
    summary: str


class Diagnosis(Row, frozen=True, kw_only=True, eq=False):
    """What mpmon says about one snapshot, given the previous ones."""

    verdict: Verdict
    since: float | None = None
    """When the verdict's state began, seconds since the epoch."""
    settled: bool = False
    """Observing longer would not change the answer soon."""
    because: str = ""
    """One sentence for the verdict, also when nothing is wrong."""
    findings: tuple[Finding, ...] = ()
    remarks: tuple[Remark, ...] = ()
    """Further warnings, the worst first; they do not affect the verdict."""
    unchecked: tuple[Unchecked, ...] = ()
    processes: tuple[ProcessView, ...] = ()
    paces: tuple[Pace, ...] = ()
    """The ranks of a healthy job, by rank."""
    bottleneck: Bottleneck | None = None
    """`None` also if it is not clear."""
    pause: Pause | None = None
    """The last one, if pauses are the exception."""
    queue_parts: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """What each queue is to a library, by its pipe: `loader result queue`."""
    elsewhere: int = 0
    """How many ranks of the job belong on machines that are not observed: the verdict covers a part of the job."""
    hidden: tuple[tuple[int, int], ...] = ()
    """Threads, by pid and tid, that stand still in an unknown wait; if they could be read, the verdict might be surer.
    """


class TrendPoint(msgspec.Struct, frozen=True, gc=False):
    """What is kept of an earlier round for histories: one a round, for the last minutes."""

    taken_at: float
    gpus: tuple[Gpu, ...]
    gpu_processes: tuple[GpuProcess, ...]
    cpu: dict[int, float]
    """Percent of one core by pid, of the processes that ran."""
    received: dict[int, tuple[int, int]] = {}
    """For processes that receive CUDA memory and have the shim: tensors received so far, and bytes resident."""
    queues: tuple[QueueState, ...] = ()
    queue_records: tuple[QueueRecord, ...] = ()
    """For the throughput of each queue."""
    flight_records: tuple[FlightRecord, ...] = ()
    """For how many collectives each rank begins."""
    spots: tuple[Spot, ...] = ()
    """For what ranks spend their time on."""


class Observation(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A snapshot with its diagnosis: what every view shows."""

    snapshot: Snapshot
    diagnosis: Diagnosis
    watched_s: float
    """For how long mpmon has been observing."""
    number: int = 1
    """Its sequence number among all observations, from 1."""
    trend: tuple[TrendPoint, ...] = ()
    """The last minutes, oldest first, including the present one."""
    events: tuple[Event, ...] = ()
    """What happened since mpmon attached, oldest first; the last few hundred."""
    told_at: float | None = None
    """When the observation was repeated with only the state of other machines' agents updated; `None` for a new one."""
