"""What a diagnosis says: verdict, findings, suspects, and what could not be checked.

Words: a *culprit* is who must move first in truth, a *suspect* is who mpmon believes it is; a *waiter* only waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec

from mpmon.diagnosis.words import several
from mpmon.model import FlightRecord, Gpu, GpuProcess, Pid, QueueRecord, QueueState, Row, Snapshot, Spot

MOST_CAUSES = 6
"""Causes that are named in one line for people."""


class Verdict(Enum):
    """The state of the whole job."""

    HUNG = "hung"
    """Somebody waits, and nobody who could help has moved."""
    SLOW = "slow"
    """Somebody waits for one that does move, or that will."""
    HEALTHY = "healthy"
    UNKNOWN = "unknown"
    """Too little could be read, or not long enough."""


class Certainty(Enum):
    """How sure a finding is."""

    PROVED = "proved"
    """Every edge is exact, and a second look found the same."""
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
    """One thread that must move first."""

    pid: Pid
    dead: bool = False
    role: str
    rank: int | None = None
    thread: str = "MainThread"
    tid: Pid | None = None
    frame: Place | None = None
    """The innermost line of the user's own code, else the innermost line."""
    end: str | None = None
    """How it ended: `killed by SIGKILL (9)`; `None` for the living."""
    host: str | None = None
    """Its machine, of a job on several; there it has the pid that `mpmon.diagnosis.hosts` tells."""


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
    """What names those it waits for: `kernel`, `ledger`, `memory`, `frames`; `assumed` where they are those who could help;
    `None` of one that waits for nobody.
    """
    host: str | None = None


class Finding(Row, frozen=True, kw_only=True, omit_defaults=False):
    """One claim: this cause, these suspects, because of this evidence."""

    cause: str
    """An id of the taxonomy, e.g. `worker-stuck`."""
    certainty: Certainty
    doubts: tuple[str, ...] = ()
    """Why it is not proved; empty where it is."""
    summary: str
    suspects: tuple[Suspect, ...]
    waiters: tuple[Waiter, ...] = ()
    chain: tuple[Link, ...] = ()
    """From the one whose progress counts to the first suspect."""
    evidence: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    since: float | None = None
    """When the suspect last moved, seconds since the epoch."""
    threads: tuple[Suspect, ...] = ()
    """Each thread of which the sentences tell several together."""


class Remark(Row, frozen=True, kw_only=True, omit_defaults=False):
    """Something a person should know that is no hang: two ranks on one GPU, memory nobody frees, a full /dev/shm."""

    topic: str
    """`gpu-shared`, `ipc-leak` …: one per kind of remark."""
    summary: str
    pids: tuple[Pid, ...] = ()
    """Whom it is about, the first to look at first."""
    gpu_uuids: tuple[str, ...] = ()
    """On which devices."""
    since: float | None = None
    """Seconds since the epoch."""
    evidence: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()


class Event(Row, frozen=True, kw_only=True, omit_defaults=False):
    """Something that happened to the job, or to the look at it, while mpmon watched."""

    at: float
    """The moment of the snapshot in which it was noticed, seconds since the epoch."""
    kind: str
    """`watch`, `born`, `restarted`, `died`, `hang-began`, `hang-ended`, `verdict`, `finding-began`, `finding-changed`,
    `finding-ended`, `remark-began`, `remark-ended`, `gpu-lost`, `gpu-back`, `xid`, `oom-kill`, `probe-failed`,
    `probe-works`, `bottleneck`, `job-ended`."""
    summary: str
    pids: tuple[Pid, ...] = ()
    bad: bool = False
    """It is trouble."""


class Unchecked(Row, frozen=True, kw_only=True):
    """A cause that could not be looked for, and why."""

    cause: str
    reason: str


def by_reason(rows: Iterable[Unchecked]) -> list[str]:
    """The same for people, one line a reason: `stacks of pid 7: permission denied (not decided: gil-held, worker-stuck)`."""
    causes: dict[str, list[str]] = {}
    for row in rows:
        causes.setdefault(row.reason, []).append(row.cause)
    return [f"{reason} (not decided: {several(found, MOST_CAUSES)})" for reason, found in causes.items()]


class ProcessView(Row, frozen=True, kw_only=True):
    """What mpmon makes of one process: its role and, in one line, what it does."""

    pid: Pid
    role: str
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    parent: Pid | None = None
    """Where it hangs in the job's tree (the process it works for, not always the kernel's parent)."""
    target_known: bool = True
    """`False` of a child of multiprocessing that was not seen to run its function: another look may give it another role."""
    cpu_percent: float | None = None
    """Of one core, since the round before."""
    does: str = ""
    """`waits for batch`, `idle`, `runs`, `asleep in download()` …"""
    mood: str = ""
    """`suspect`, `waiting`, `idle`, `working`, `stopped`, `dead`, or empty when unknown."""
    still_since: float | None = None
    """Since when its main thread has not run, seconds since the epoch."""


class Pause(Row, frozen=True, kw_only=True):
    """A while in which the main threads of all ranks but one did not run. Moments are seconds since the epoch."""

    began: float
    ended: float
    ran: tuple[int, ...] = ()
    """Who did run meanwhile: nobody, or one."""


class Pace(Row, frozen=True, kw_only=True, omit_defaults=False):
    """How fast one rank is, and on what its main thread spends its time; a number that is not known is `None`."""

    pid: int
    role: str
    rank: int | None = None
    batches_per_s: float | None = None
    """Taken from its DataLoader's workers."""
    collectives_per_s: float | None = None
    """Begun, by its Flight Recorder."""
    looks: int = 0
    """At so many moments of the last minute, pauses left out, it is known what it did."""
    works: float | None = None
    """Share of these looks, 0 to 1, in which it computed, slept, or read or wrote a file by itself."""
    waits_for_ranks: float | None = None
    """In which it waited in a collective."""
    waits_for_data: float | None = None
    """In which it waited for its next batch."""


class Bottleneck(Row, frozen=True, kw_only=True, omit_defaults=False):
    """Why a job that works is not faster: the others wait for this rank, or all wait for their data."""

    pids: tuple[int, ...]
    """The rank, or all ranks."""
    what: str
    """`work` or `data`: what the others wait for it to do, or what it waits for itself."""
    place: Place | None = None
    """Where most looks found it at its own work."""
    summary: str


class Diagnosis(Row, frozen=True, kw_only=True, eq=False):
    """What mpmon says about one snapshot, given the ones before."""

    verdict: Verdict
    since: float | None = None
    """Since when the verdict's state lasts, seconds since the epoch."""
    settled: bool = False
    """More looking would not change the answer soon."""
    because: str = ""
    """One sentence for the verdict, also when nothing is wrong."""
    findings: tuple[Finding, ...] = ()
    remarks: tuple[Remark, ...] = ()
    """What else a person should know, the worst first; they do not make a verdict."""
    unchecked: tuple[Unchecked, ...] = ()
    processes: tuple[ProcessView, ...] = ()
    paces: tuple[Pace, ...] = ()
    """Of the ranks of a job that is healthy, by rank."""
    bottleneck: Bottleneck | None = None
    """`None` also where that is not clear."""
    pause: Pause | None = None
    """The last one, where pauses are the exception."""
    queue_parts: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """What queues were seen to be to a library, by their pipes: `loader result queue`."""
    elsewhere: int = 0
    """So many ranks of the job belong on machines that are not at hand: the verdict is of a part of the job."""
    hidden: tuple[tuple[int, int], ...] = ()
    """Threads, by pid and tid, that stand still in nobody knows what, and without which the verdict could be surer."""


class Moment(msgspec.Struct, frozen=True, gc=False):
    """What of an earlier round is kept for histories: of the last minutes, one a round."""

    taken_at: float
    gpus: tuple[Gpu, ...]
    gpu_processes: tuple[GpuProcess, ...]
    cpu: dict[int, float]
    """Percent of one core by pid, of those that ran."""
    received: dict[int, tuple[int, int]] = {}
    """Of processes that receive CUDA memory, as far as they have the shim: sendings received so far, and bytes resident."""
    queues: tuple[QueueState, ...] = ()
    queue_records: tuple[QueueRecord, ...] = ()
    """For how much goes through each."""
    flight_records: tuple[FlightRecord, ...] = ()
    """For how many collectives each rank begins."""
    spots: tuple[Spot, ...] = ()
    """For what ranks spend their time on."""


class Observation(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A snapshot with its diagnosis: what every view shows."""

    snapshot: Snapshot
    diagnosis: Diagnosis
    watched_s: float
    """How long mpmon has been looking."""
    number: int = 1
    """Its place among all that were made, from 1."""
    trend: tuple[Moment, ...] = ()
    """The last minutes, oldest first, the present one included."""
    events: tuple[Event, ...] = ()
    """What happened since mpmon came, the oldest first; the last hundreds."""
    told_at: float | None = None
    """When it was told once more, with nothing new but the state of the agents on other machines; `None` the first time."""
