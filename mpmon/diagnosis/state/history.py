"""What has not changed, and since when: a fold over snapshots.

A hang means that nothing happens, which no single snapshot shows. `History.add` returns a new history; the old one
stays unchanged. Its memory is bounded: per thread, when it last ran and its last samples; per process, the counters at
the beginning of the window.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import msgspec

from mpmon.diagnosis.findings import TrendPoint
from mpmon.diagnosis.ipc.ground import Ground
from mpmon.diagnosis.ipc.queues import parts
from mpmon.diagnosis.memo import others
from mpmon.diagnosis.roles import GivenNames, Role, given_names, roles, still_hold
from mpmon.diagnosis.stacks.waits import WaitState, wait_state
from mpmon.diagnosis.state.spots import Spots
from mpmon.diagnosis.thresholds import BIRTHS_S, EMPTY_READS, GROWTH_BYTES, KEPT_LOOKS, LEAST_SIGNS, POLLS_SHARE
from mpmon.model import Blocked, Process, Snapshot, Stack, Thread

TREND_ROUNDS = 300
"""Number of rounds that histories go back."""

ThreadKey = tuple[int, int]
"""(pid, tid)."""

_Row = Process | Thread | Stack | Blocked


class Sample(msgspec.Struct, frozen=True, gc=False):
    """One thread as found at one moment."""

    at: float
    stack: Stack | None
    blocked: Blocked | None
    slices: int = 0
    """How often it had been scheduled by then."""
    run_ns: int = 0
    """Its run time by then."""
    _wait_state: WaitState | None = None

    @property
    def on_cpu(self) -> bool:
        """The thread was running, as far as known."""
        return self.blocked is None or self.blocked.state == "R" or self.blocked.syscall == "running"

    @property
    def wait_state(self) -> WaitState:
        """What it waited in, by its stack and the kernel; computed once."""
        found = self._wait_state
        if found is None:
            found = wait_state(self.stack, self.blocked)
            msgspec.structs.force_setattr(self, "_wait_state", found)
        return found


class ThreadHistory(msgspec.Struct, frozen=True, gc=False):
    """One thread over time."""

    thread: Thread
    first: Thread
    """Counters when it was first seen."""
    first_at: float
    ran_at: float
    """When it was last seen to have run, seconds since the epoch; before mpmon attached, by its sleep age."""
    changes: int = 0
    """Number of rounds since it was first seen in which it had run."""
    samples: tuple[Sample, ...] = ()
    alike_since: float = 0.0
    """When the current series of samples on a CPU with the same lines and variables began; its first sample may no longer be
    remembered.
    """


class ProcessActivity(msgspec.Struct, frozen=True, gc=False):
    """Signs of life of one process: when something irreversible was seen."""

    process: Process
    first: Process
    first_at: float
    io_at: tuple[float, ...] = ()
    """When its I/O counters grew, the last `LEAST_SIGNS` times."""
    read_at: tuple[float, ...] = ()
    """When its read counter grew, as many times."""
    busy_at: tuple[float, ...] = ()
    """When it had used a CPU for more than a moment, the last `LEAST_SIGNS` times."""
    empty_since: float | None = None
    """Since when it has read again and again without getting anything; `None` if it does not."""
    wrote_at: float | None = None
    """When its write counter last grew."""
    rate: float | None = None
    """Share of one CPU used since the previous round; `None` in its first round."""
    most_bytes: int = 0
    """Its highest resident memory so far."""
    grew_rounds: int = 0
    """Number of rounds in which resident memory clearly exceeded its previous maximum."""
    grew_at: float | None = None
    """When it last did so."""
    reaped_at: float | None = None
    """When it was last seen to have reaped a child."""
    ended_at: float | None = None
    """When it was first seen to have ended, if it was seen alive before."""
    stopped_at: float | None = None
    """When it was first seen stopped by the present signal, or the last one, if it was seen to run before."""
    longest_stop_s: float = 0.0
    """How long it was stopped at most before something let it continue."""


class History:
    """The present snapshot and what is remembered of earlier ones."""

    def __init__(self) -> None:
        self.first_at = 0.0
        self.rounds = 0
        self.snapshot: Snapshot | None = None
        self.pasts: dict[ThreadKey, ThreadHistory] = {}
        self.lives: dict[tuple[int, float], ProcessActivity] = {}
        self.stirred: frozenset[int] | None = None
        """Processes with a row, thread, history or activity that changed since the previous round; `None` if that may
        be all of them.
        """
        self._rates: dict[int, float | None] = {}
        """By process, unless 0."""
        self.given: GivenNames = {}
        """Children that are not known to have ended."""
        self.roles: dict[int, Role] = {}
        self.last_roles: dict[int, Role] = {}
        """Processes that ended while mpmon watched."""
        self.queue_parts: dict[str, str] = {}
        """What each queue is to a library, by its pipe, for as long as the pipe exists."""
        self.trend: tuple[TrendPoint, ...] = ()
        """The last minutes for histories, oldest first."""
        self.spots = Spots()
        """Where the main threads of ranks were."""
        self.births: tuple[tuple[float, int], ...] = ()
        """(moment, pid) of processes that appeared while mpmon watched, within the window."""

    @property
    def now(self) -> float:
        """The moment of the present snapshot."""
        return self.snapshot.taken_at if self.snapshot else 0.0

    @property
    def watched_s(self) -> float:
        """For how long mpmon has been observing."""
        return self.now - self.first_at

    def add(self, snapshot: Snapshot) -> History:
        """The history with one more snapshot."""
        new = History()
        new.snapshot = snapshot
        new.rounds = self.rounds + 1
        new.first_at = self.first_at if self.rounds else snapshot.taken_at
        changes = self._changes(snapshot)
        stirred = new.stirred = None if changes is None else frozenset((*self._rates, *(row.pid for row in changes)))
        again = [row for row in snapshot.processes if stirred is None or row.pid in stirred]
        new.pasts = self._pasts(snapshot) if changes is None else self._later_pasts(changes, snapshot.taken_at)
        new.lives = self._lives(snapshot, again)
        new._rates = {row.pid: rate for row in again if (rate := new.lives[row.key].rate) != 0.0}
        new.spots = self.spots.add(self.snapshot, snapshot, new._fresh_frames)
        new.births = self._births(snapshot) if stirred is None else self._late_births(snapshot.taken_at)
        new.given = self._given(snapshot)
        new.roles = self._roles(snapshot, changes, new.given)
        new.last_roles = self._last_roles(snapshot)
        new.queue_parts = self._queue_parts(snapshot, new.roles)
        new.trend = (*self.trend[-(TREND_ROUNDS - 1) :], _trend_point(snapshot, new._rates))
        return new

    def thread_history(self, pid: int, tid: int) -> ThreadHistory | None:
        """What is remembered of a thread."""
        return self.pasts.get((pid, tid))

    def _fresh_frames(self, pid: int) -> Stack | None:
        """The frames of a main thread, if this round sampled it."""
        past = self.pasts.get((pid, pid))
        sample = past.samples[-1] if past and past.samples else None
        return sample.stack if sample and sample.at == self.now else None

    def life(self, process: Process) -> ProcessActivity | None:
        """What is remembered of a process."""
        return self.lives.get(process.key)

    def _changes(self, snapshot: Snapshot) -> list[_Row] | None:
        """The rows that changed since the previous round; `None` if rows also came, went or were renamed."""
        before = self.snapshot
        changes: list[_Row] = []
        for table in ("processes", "threads", "stacks", "blocked"):
            pairs: list[tuple[_Row, _Row]] | None = others(getattr(before, table, ()), getattr(snapshot, table))
            if before is None or pairs is None or any(_who(old) != _who(new) for old, new in pairs):
                return None
            changes += [new for _, new in pairs]
        return changes

    def _pasts(self, snapshot: Snapshot) -> dict[ThreadKey, ThreadHistory]:
        at = snapshot.taken_at
        stacks = {(row.pid, row.tid): row for row in snapshot.stacks}
        blocked = {(row.pid, row.tid): row for row in snapshot.blocked}
        keys = ((row, (row.pid, row.tid)) for row in snapshot.threads)
        return {key: _with_look(self._past(row, at), at, stacks.get(key), blocked.get(key)) for row, key in keys}

    def _later_pasts(self, changes: list[_Row], at: float) -> dict[ThreadKey, ThreadHistory]:
        """Most threads have the very same rows as in the previous round, and so the same history."""
        pasts = dict(self.pasts)
        pasts.update({(row.pid, row.tid): self._past(row, at) for row in changes if isinstance(row, Thread)})
        stacks = {(row.pid, row.tid): row for row in changes if isinstance(row, Stack)}
        blocked = {(row.pid, row.tid): row for row in changes if isinstance(row, Blocked)}
        for key in (stacks.keys() | blocked.keys()) & pasts.keys():
            past = pasts[key]
            stack, call = (past.samples[-1].stack, past.samples[-1].blocked) if past.samples else (None, None)
            pasts[key] = _with_look(past, at, stacks.get(key, stack), blocked.get(key, call))
        return pasts

    def _past(self, thread: Thread, at: float) -> ThreadHistory:
        """What is remembered of a thread, updated by how much it ran until now."""
        past = self.pasts.get((thread.pid, thread.tid))
        if past is None:
            return ThreadHistory(thread, thread, at, at)
        if thread is past.thread or thread == past.thread:
            return past
        return msgspec.structs.replace(past, thread=thread, ran_at=at, changes=past.changes + 1)

    def _lives(self, snapshot: Snapshot, again: list[Process]) -> dict[tuple[int, float], ProcessActivity]:
        if self.snapshot is None:
            return {row.key: ProcessActivity(row, row, snapshot.taken_at) for row in snapshot.processes}
        elapsed = max(1e-3, snapshot.taken_at - self.snapshot.taken_at)
        lives = dict(self.lives) if len(again) < len(snapshot.processes) else {}
        for process in again:
            life = self.lives.get(process.key)
            if life is None:
                life = ProcessActivity(process, process, snapshot.taken_at)
            elif process is not life.process:
                life = _with_counters(life, process, snapshot.taken_at, elapsed)
            elif life.rate != 0.0:
                life = msgspec.structs.replace(life, rate=0.0, empty_since=None)
            lives[process.key] = life
        return lives

    def _births(self, snapshot: Snapshot) -> tuple[tuple[float, int], ...]:
        kept = self._late_births(snapshot.taken_at)
        if self.snapshot is None or self.snapshot.processes is snapshot.processes:
            return kept
        known = {process.key for process in self.snapshot.processes}
        return kept + tuple((snapshot.taken_at, row.pid) for row in snapshot.processes if row.key not in known)

    def _late_births(self, now: float) -> tuple[tuple[float, int], ...]:
        return tuple(birth for birth in self.births if birth[0] > now - BIRTHS_S)

    def _last_roles(self, snapshot: Snapshot) -> dict[int, Role]:
        if self.snapshot is None or self.snapshot.exits is snapshot.exits:
            return self.last_roles
        known = self.last_roles | self.roles
        return {row.pid: known[row.pid] for row in snapshot.exits if row.pid in known}

    def _given(self, snapshot: Snapshot) -> GivenNames:
        if self.snapshot is not None and self.snapshot.remembered is snapshot.remembered:
            return self.given
        found = given_names(snapshot.remembered)
        return self.given if found == self.given else found

    def _roles(self, snapshot: Snapshot, changes: list[_Row] | None, given: GivenNames) -> dict[int, Role]:
        before = self.snapshot
        if given is self.given and self._same_roles(snapshot, changes):
            return self.roles
        stacks: dict[int, list[Stack]] = defaultdict(list)
        for stack in snapshot.stacks:
            stacks[stack.pid].append(stack)
        names: dict[int, set[str]] = defaultdict(set)
        for thread in snapshot.threads:
            names[thread.pid].add(thread.name)
        alive = {process.key for process in snapshot.processes}
        known = {row.pid: self.roles[row.pid] for row in (before.processes if before else ()) if row.key in alive}
        frozen = {pid: frozenset(found) for pid, found in names.items()}
        found = roles(snapshot.processes, stacks, snapshot.root_pid, known, frozen, given=given)
        return self.roles if found == self.roles else found

    def _same_roles(self, snapshot: Snapshot, changes: list[_Row] | None) -> bool:
        """Whether nothing has changed that roles depend on, except perhaps the names that programs give."""
        before = self.snapshot
        if changes is not None and self._still_hold(snapshot, {row.pid for row in changes if isinstance(row, Stack)}):
            return True
        if before is None or before.stacks is not snapshot.stacks:
            return False
        return _same_names(before.processes, snapshot.processes)

    def _queue_parts(self, snapshot: Snapshot, roles: Mapping[int, Role]) -> dict[str, str]:
        before = self.snapshot
        if (
            before
            and roles is self.roles
            and all(
                getattr(before, table) is getattr(snapshot, table) for table in ("queues", "queue_records", "blocked")
            )
        ):
            return self.queue_parts
        found = parts(Ground(snapshot, roles, self.queue_parts))
        return self.queue_parts if found == self.queue_parts else found

    def _still_hold(self, snapshot: Snapshot, pids: set[int]) -> bool:
        """Whether these processes, the only ones with new frames, still have the same roles."""
        if not pids:
            return True
        stacks = {pid: [row for row in snapshot.stacks if row.pid == pid] for pid in pids}
        names = {pid: frozenset(row.name for row in snapshot.threads if row.pid == pid) for pid in pids}
        return still_hold(self.roles, snapshot.processes, stacks, snapshot.root_pid, names, given=self.given)


def _trend_point(snapshot: Snapshot, rates: Mapping[int, float | None]) -> TrendPoint:
    cpu = {pid: round(100 * rate, 1) for pid, rate in rates.items() if rate}
    receivers = {row.pid: row.received for row in snapshot.shims if row.alive and row.received}
    resident = {row.pid: row.rss_bytes for row in snapshot.processes if row.pid in receivers} if receivers else {}
    received = {pid: (receivers[pid], held) for pid, held in resident.items()}
    return TrendPoint(
        snapshot.taken_at, snapshot.gpus, snapshot.gpu_processes, cpu, received, snapshot.queues, snapshot.queue_records,
        snapshot.flight_records, snapshot.spots,
    )  # fmt: skip


def _who(row: _Row) -> tuple[object, ...]:
    """The identity over time of a row's subject, plus the fields that roles depend on."""
    if isinstance(row, Process):
        return row.key, row.name, row.ppid, row.ended, row.exe, row.cmdline, row.environment
    return (row.pid, row.tid, row.name) if isinstance(row, Thread) else (row.pid, row.tid)


def _same_names(before: tuple[Process, ...], now: tuple[Process, ...]) -> bool:
    pairs = zip(before, now, strict=False)
    return len(before) == len(now) and all(
        old is new or (old.pid, old.name) == (new.pid, new.name) for old, new in pairs
    )


def _with_look(past: ThreadHistory, at: float, stack: Stack | None, blocked: Blocked | None) -> ThreadHistory:
    last = past.samples[-1] if past.samples else None
    if last is not None:
        # In a recording rows are recreated; the time of a reading tells whether two are the same.
        stack = last.stack if stack == last.stack else stack
        blocked = last.blocked if blocked == last.blocked else blocked
        if last.stack is stack and last.blocked is blocked:
            return past
    if stack is None and blocked is None:
        return past
    ran_at = past.ran_at
    if blocked and blocked.ran_at is not None and past.changes == 0:
        ran_at = min(ran_at, blocked.ran_at)
    sample = Sample(at, stack, blocked, past.thread.slices, past.thread.run_ns)
    since = past.alike_since if last is not None and _are_alike(last, sample) else at
    return msgspec.structs.replace(
        past, samples=(*past.samples[-(KEPT_LOOKS - 1) :], sample), ran_at=ran_at, alike_since=since
    )


def _are_alike(before: Sample, after: Sample) -> bool:
    if not (before.on_cpu and after.on_cpu) or before.stack is None or after.stack is None:
        return False
    return before.stack is after.stack or _pictures(before.stack) == _pictures(after.stack)


def _pictures(stack: Stack) -> list[tuple[object, ...]]:
    return [(row.file, row.function, row.line, row.arguments_digest, row.locals_digest) for row in stack.frames]


def _with_counters(life: ProcessActivity, process: Process, now: float, elapsed: float) -> ProcessActivity:
    before = life.process
    if process.ended and not before.ended:
        life = msgspec.structs.replace(life, ended_at=now)
    if process.stopped and not before.stopped:
        life = msgspec.structs.replace(life, stopped_at=now)
    elif before.stopped and not process.stopped and life.stopped_at is not None:
        life = msgspec.structs.replace(life, longest_stop_s=max(life.longest_stop_s, now - life.stopped_at))
    rate = max(0.0, process.cpu_s - before.cpu_s) / elapsed
    if rate > POLLS_SHARE:
        life = msgspec.structs.replace(life, busy_at=(*life.busy_at[1 - LEAST_SIGNS :], now))
    if process.rss_bytes >= max(life.most_bytes, life.first.rss_bytes) + GROWTH_BYTES:
        life = msgspec.structs.replace(
            life, most_bytes=process.rss_bytes, grew_rounds=life.grew_rounds + 1, grew_at=now
        )
    if process.child_faults != before.child_faults and before.child_faults is not None:
        life = msgspec.structs.replace(life, reaped_at=now)
    if (process.read_bytes, process.written_bytes) == (before.read_bytes, before.written_bytes):
        reads = ((process.reads or 0) - (before.reads or 0)) / elapsed
        empty_since = (life.empty_since or now - elapsed) if reads >= EMPTY_READS else None
        return msgspec.structs.replace(life, process=process, rate=rate, empty_since=empty_since)
    wrote_at = life.wrote_at if process.written_bytes == before.written_bytes else now
    read_at = life.read_at if process.read_bytes == before.read_bytes else (*life.read_at[1 - LEAST_SIGNS :], now)
    io_at = (*life.io_at[1 - LEAST_SIGNS :], now)
    return msgspec.structs.replace(
        life, process=process, rate=rate, io_at=io_at, read_at=read_at, wrote_at=wrote_at, empty_since=None
    )
