"""One round of reading what a job shares, and the cost limits of a round.

Reading the mappings and descriptors of a large process costs about a millisecond. So each process is read once, and
again only after it has run, the least recently read first, within a small share of one CPU: in a large active job, rows
may be minutes old. A job without activity is known exactly. A one-shot report (`eager`) reads everything at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import msgspec

from mpmon.model import Limits, ProbeReport, Process, SharedFile, SharedUse, Snapshot, Unknown
from mpmon.probes.files import Proc
from mpmon.probes.ipc.contents import Contents
from mpmon.probes.ipc.creators import Creators
from mpmon.probes.ipc.leftovers import Leftovers
from mpmon.probes.ipc.looks import Look, look_at, max_maps
from mpmon.probes.ipc.queues import Queues
from mpmon.probes.ipc.storages import Storages
from mpmon.probes.ipc.tmpfs import FileSystems
from mpmon.rows import kept

INCOME = 0.0002
"""Share of one CPU that may be spent on repeated reads."""

PURSE_S = 0.02
"""CPU time that may be spent on repeated reads at once."""

EAGER_S = 0.05
"""The same for each round of a one-shot report."""

FIRST_PER_ROUND = 16
"""Most processes read for the first time in one round."""

ASKED_PER_ROUND = 1
"""Most processes searched for queues in one round."""

AGAIN_S = 2.0
"""Interval between two reads of one process."""

QUEUES_PER_ROUND, REFCOUNTERS_PER_ROUND = 6, 8

LEDGERS_PER_ROUND, LEDGERS_AGAIN_S = 4, 300.0
"""Most processes whose ledgers are read in one round, and the interval between two reads of one, to tell putters from
getters. These hardly ever change: so each is read seldom, and all of them soon.
"""

ASKED_EAGERLY = 64

WAITING_S = 2.0
"""Interval between two decisions about which to search again."""

RENEWED_S = 10.0
"""Interval between two checks whether a process outside the job is alive."""

ALL = 1 << 20


class IpcProbe:
    """Fills the tables of shared memory and of queues."""

    def __init__(self, proc: Proc, *, eager: bool = False) -> None:
        self._proc = proc
        self._eager = eager
        self._purse = PURSE_S
        self._maps_limit = max_maps(proc)
        self._round_at: float | None = None
        self._renewed_at = float("-inf")
        self._processes: dict[int, Process] = {}
        self._looks: dict[int, Look] = {}
        self._looked_at: dict[int, Process] = {}
        """Processes as they were when read: another row means that the process has run."""
        self._left: list[int] = []
        """Processes that have ended since the previous round."""
        self._stale: set[int] = set()
        self._settled_at, self._pause_s = float("-inf"), 0.0
        """When it was last decided which processes to search for queues, and when not to decide again."""
        self._unread = 0
        """Rounds until every queue has been read since a process last changed."""
        self._creators = Creators(proc)
        self._files = Storages(proc, self._creators, per_round=ALL if eager else REFCOUNTERS_PER_ROUND)
        self._leftovers = Leftovers(proc, self._creators, eager=eager)
        self._systems = FileSystems(proc)
        self._queues = Queues(proc)
        self._contents = Contents(
            proc, per_round=ALL if eager else QUEUES_PER_ROUND,
            ledgers_per_round=ALL if eager else LEDGERS_PER_ROUND,
            ledgers_again_s=AGAIN_S if eager else LEDGERS_AGAIN_S,
        )  # fmt: skip
        self._tables = Tables()

    def begin(self) -> None:
        """Nothing takes long enough to be begun early."""

    def add(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with these tables; the first round of a screen omits them, so that it appears at once."""
        first, before_at, self._round_at = self._round_at is None, self._round_at, snapshot.taken_at
        if first and not self._eager:
            return snapshot
        started, cpu_started = time.perf_counter(), time.thread_time()
        self._renew(snapshot)
        self._purse = EAGER_S if self._eager else self._filled(snapshot.taken_at - (before_at or snapshot.taken_at))
        fresh = self._look(snapshot.taken_at)
        self._read(fresh, snapshot.taken_at)
        if fresh or self._left:
            self._tables.join(self._looks)
            # What follows from a read is charged like the read.
            self._purse -= time.thread_time() - cpu_started
        return self._filled_in(snapshot, time.perf_counter() - started)

    def close(self) -> None:
        """Nothing is kept open."""

    def _filled(self, elapsed: float) -> float:
        return min(PURSE_S, max(-PURSE_S, self._purse) + INCOME * elapsed)

    def _renew(self, snapshot: Snapshot) -> None:
        """Update the living processes, and which of them have run."""
        before = self._processes
        self._processes = {process.pid: process for process in snapshot.processes if not process.ended}
        if any(before.get(pid) is not process for pid, process in self._processes.items()):
            self._unread = ALL if self._eager else len(self._queues.known) // QUEUES_PER_ROUND + 2
        self._left = [pid for pid, process in self._looked_at.items() if not self._is_same(process)]
        for pid in self._left:
            del self._looks[pid], self._looked_at[pid]
            self._stale.discard(pid)
        if before.keys() != self._processes.keys() or snapshot.taken_at - self._renewed_at >= RENEWED_S:
            self._renewed_at = snapshot.taken_at
            self._creators.renew(self._processes)

    def _is_same(self, process: Process) -> bool:
        now = self._processes.get(process.pid)
        return now is process or (now is not None and now.key == process.key)

    # Reading processes

    def _look(self, now: float) -> list[int]:
        """Read processes, those never read first; returns their pids."""
        unseen = [process for pid, process in self._processes.items() if pid not in self._looks]
        unseen.sort(key=lambda process: (process.start_time, process.pid))
        stale = [self._processes[pid] for pid in sorted(self._stale) if now - self._looks[pid].at >= AGAIN_S]
        first = [*unseen, *stale]
        fresh = first if self._eager else first[:FIRST_PER_ROUND]
        for process in fresh:
            self._look_at(process, now)
        return [process.pid for process in (*fresh, *self._look_again(now))]

    def _look_again(self, now: float) -> Iterator[Process]:
        """Read processes that have run, the least recently read first, within the CPU budget."""
        if self._purse <= 0:
            return
        moved = [
            self._processes[pid] for pid, look in self._looks.items()
            if self._looked_at[pid] is not self._processes[pid] and now - look.at >= AGAIN_S
        ]  # fmt: skip
        moved.sort(key=lambda process: self._looks[process.pid].at)
        deadline = time.thread_time() + self._purse
        for process in moved:
            if time.thread_time() >= deadline:
                return
            self._look_at(process, now)
            yield process

    def _look_at(self, process: Process, now: float) -> None:
        pid = process.pid
        self._looks[pid] = look_at(self._proc, pid, now, self._maps_limit, self._looks.get(pid))
        self._looked_at[pid] = process
        self._stale.discard(pid)

    # Reading contents

    def _read(self, fresh: list[int], now: float) -> None:
        self._files.refresh(self._looks, fresh, self._processes, now)
        if fresh or self._left:
            self._systems.note([self._looked_at[pid] for pid in self._looks])
        self._systems.refresh()
        if len(self._looks) == len(self._processes):
            self._leftovers.refresh(self._systems.rows, self._files.ids, self._processes, now)
        self._find_queues(fresh, now)
        if self._unread:
            self._unread -= 1
            self._contents.read(self._queues.known, self._looks, self._processes, now)
            self._queues.drop(self._contents.gone)
        self._stale |= (self._files.gone | self._contents.lost) & self._looks.keys()

    def _find_queues(self, fresh: list[int], now: float) -> None:
        """Search the processes that may know of queues; the result may show that another one has to be searched."""
        if self._left:
            self._queues.forget(self._processes)
        if not fresh and (not self._queues.waits or now < self._settled_at + self._pause_s):
            return
        self._settled_at = now
        left = ASKED_EAGERLY if self._eager else ASKED_PER_ROUND
        due = self._queues.settle(fresh, self._looks, self._processes, now)
        while due and left > 0:
            for process in due[:left]:
                self._queues.ask(process, self._looks[process.pid], self._processes, now)
            left -= len(due)
            self._unread = max(self._unread, 1)
            due = self._queues.settle((), self._looks, self._processes, now)
        self._pause_s = 0.0 if due else WAITING_S

    # Results

    def _filled_in(self, snapshot: Snapshot, seconds: float) -> Snapshot:
        tables = self._tables
        unknowns = tables.unknowns((*tables.problems, *self._files.unknowns, *self._queues.unknowns), snapshot.unknowns)
        problem = next((row.reason for row in unknowns[len(snapshot.unknowns) :] if not row.gone), None)
        report = ProbeReport(name="shared memory", ok=problem is None, seconds=round(seconds, 4), problem=problem)
        return msgspec.structs.replace(
            snapshot, shared_files=tables.files((*self._files.rows, *self._leftovers.rows)),
            shared_uses=tables.uses, limits=tables.limits, shared_memory=self._systems.rows,
            queues=self._queues.rows(), unknowns=unknowns, probes=(*snapshot.probes, report),
        )  # fmt: skip


class Tables:
    """Rows of several sources as one table; the very same tuple as long as nothing changed."""

    def __init__(self) -> None:
        self.uses: tuple[SharedUse, ...] = ()
        self.limits: tuple[Limits, ...] = ()
        self.problems: tuple[Unknown, ...] = ()
        self._files: tuple[SharedFile, ...] = ()
        self._unknowns: tuple[Unknown, ...] = ()

    def join(self, looks: Mapping[int, Look]) -> None:
        """The rows of all looks."""
        ordered = [looks[pid] for pid in sorted(looks)]
        self.uses = kept(tuple(use for look in ordered for use in look.uses), self.uses)
        self.limits = kept(tuple(look.limits for look in ordered if look.limits), self.limits)
        self.problems = kept(tuple(look.problem for look in ordered if look.problem), self.problems)

    def files(self, rows: tuple[SharedFile, ...]) -> tuple[SharedFile, ...]:
        """The files that processes have, and those that none has."""
        self._files = kept(rows, self._files)
        return self._files

    def unknowns(self, rows: tuple[Unknown, ...], theirs: tuple[Unknown, ...]) -> tuple[Unknown, ...]:
        """Appended to those of the other probes."""
        if rows:
            self._unknowns = kept((*theirs, *rows), self._unknowns)
        return self._unknowns if rows else theirs
