"""The loop's one round: cheap facts always, expensive ones where something stands still or a user looks.

A round reads every process and thread of the job (some milliseconds for 256 processes).
A *thorough look* at a process asks the kernel what each thread is blocked in (about 1 ms) and py-spy for its stacks
(about 10 ms of CPU).  Whether a process is due for one:

- never looked at before: yes, once;
- not moved since the last look: no, the rows of that look still hold;
- moved: when its turn comes; the interval grows while the looks keep finding the same, and begins anew when they differ;
- came to rest in a system call that no look at it has found lately: at once, for a hang may have begun;
- has come to rest for a while in another call than that of its last look: in its turn, for what that look found is over;
- a process that keeps running: only while somebody else stands still and may wait for it, or the user looks at it.

A process that woke and went back to the very same system call (a timed re-poll) keeps its stacks without a dump.

Dumps come out of a purse that fills slowly, so a live screen costs little for ever but may look at a whole job at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Literal

import msgspec

from mpmon.codec import same_rows, shared
from mpmon.model import (
    Awaited,
    Blocked,
    Handle,
    KernelObject,
    LockUse,
    ProbeReport,
    Process,
    Remembered,
    SemaphoreUse,
    Snapshot,
    Stack,
    Thread,
    Unknown,
)
from mpmon.probes.cgroups import CgroupTable
from mpmon.probes.files import Proc
from mpmon.probes.outsiders import Outsiders
from mpmon.probes.processes import ProcessTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mpmon.probes.flight_recorder import FlightRecorder
    from mpmon.probes.kernel import KernelLook
    from mpmon.probes.stacks import StackProbe
    from mpmon.session.beside import Beside

StackMode = Literal["auto", "never"]

PER_ROUND = 16
"""Dumps of one round, so that a round stays short; the next round goes on."""

ROOT_INTERVAL_S = 10.0
"""At most between two looks at the root while it moves."""

AGAIN_PER_ROUND = 4
"""Processes of one round that are looked at again only because time has passed."""

PURSE = 256.0
"""Dumps that may be made in one go."""

SMALL_JOB = 64
"""Processes whose proportional memory is measured for a report."""

LEDGERS_PER_ROUND = 8
"""Searches of one process's memory in one round."""

INCOME = 0.1
"""Dumps a second that may be made for ever: about 1 ms of CPU a second."""

FIRST_INTERVAL_S, WOKEN_INTERVAL_S, LONGEST_INTERVAL_S = 1.0, 4.0, 60.0
"""Between two thorough looks at a process that moves: at first, when another one comes to stand, at most."""

KNOWN_CALLS = 8
"""System calls of a main thread that are remembered: a worker goes back and forth between a few."""

TORN_FOR_S = 5.0
"""So long the last frames stand for those of a process whose frames cannot be followed because it runs."""

KEPT_RUNS = 1000
"""Frames are kept for so many runs of the main thread at most: who runs more may have been elsewhere in between."""

SERVES = frozenset({"_worker_loop", "worker", "_process_worker", "_worker", "_next_index"})
"""Functions in which a DataLoader, a pool or an executor calls the code of others and waits for it: one that runs on and on
in there may be in a loop that never ends.
"""

FEEDER = "QueueFeederThread"
"""How multiprocessing names the threads that send what was put into a queue (multiprocessing/queues.py)."""

STANDS_AFTER_S = 1.5
"""A main thread that did not run for so long stands still."""

RESTS_LONG_S = 4.0
"""A worker that goes back and forth between calls it was seen in seldom rests so long in one of them."""

RESERVE = 64.0
"""Dumps that are kept for processes that come to stand in a call they were not seen in."""

NAPPER_SHARE = 0.02
"""A main thread that uses less of a CPU than this only naps and polls: it counts as standing."""


class Sampler:
    """Makes snapshots of one job."""

    def __init__(
        self,
        proc: Proc,
        root_pid: int,
        *,
        now: Callable[[], float],
        host: str,
        stacks: StackMode = "auto",
        eager: bool = False,
        stack_probe: StackProbe | None = None,
        flight_recorder: FlightRecorder | None = None,
        beside: Sequence[Beside] = (),
    ) -> None:
        """`eager` looks at what moved in every round (for one report), without back-off or purse, but in turns: dumps of
        hundreds of processes a second would take their CPU from the job.

        Raises:
            ProcessLookupError: there is no such process.
        """
        self._proc = proc
        self._now = now
        self._host = host
        self._cpus = os.cpu_count() or 1
        self._eager = eager
        self._table = ProcessTable(proc, root_pid)
        self._cgroups = CgroupTable(proc)
        self._outsiders = Outsiders(proc)
        self._stacks = stacks
        self._stack_probe = stack_probe
        self._flight_recorder = flight_recorder
        self._beside = tuple(beside)
        self._looks: dict[int, _Look] = {}
        self._motion: dict[int, _Motion] = {}
        self._moved: set[int] = set()
        """Processes that have run since they were looked at, or were not looked at yet."""
        self._awake: frozenset[int] = frozenset()
        """Processes that do not stand."""
        self._others_may_have: frozenset[str] | None = None
        """Of what those that stand wait on: what processes outside of the job may have as well; `None` until asked for."""
        self._purse = PURSE
        self._last_round_at = now()
        self._attended: int | None = None
        self._all_due = False
        self._newly_standing: set[int] = set()
        self._standing_again: set[int] = set()
        self._standing_elsewhere: set[int] = set()
        self._rounds = 0
        self._joined = _Joined()
        self.pending = False
        """More processes are due than one round may look at: the next round should follow at once."""

    @property
    def root(self) -> tuple[int, float]:
        """Pid and start time of the job's root."""
        return self._table.root_pid, self._table.root_start_time

    def attend(self, pid: int | None) -> None:
        """The user looks at this process: keep its rows fresh."""
        self._attended = pid

    def look_now(self) -> None:
        """Look at everything in the next round."""
        self._all_due = True
        self._purse = PURSE

    def round(self) -> Snapshot:
        """All facts of this moment."""
        now = self._now()
        for probe in self._beside:
            probe.begin()
        processes, threads = self._table.look(now)
        read_s = self._now() - now
        self._note_motion(now)
        due = self._due(now)
        reports = [ProbeReport(name="processes", ok=True, seconds=round(read_s, 4))]
        if due:
            reports += self._look_at(due, now)
        snapshot = self._assemble(now, processes, threads, tuple(reports))
        for probe in self._beside:
            snapshot = probe.add(snapshot)
        return snapshot if self._flight_recorder is None else self._with_numbers(snapshot, self._flight_recorder)

    def close(self) -> None:
        """End what runs and give all descriptors back."""
        if self._stack_probe:
            self._stack_probe.close()
        if self._flight_recorder:
            self._flight_recorder.close()
        for probe in self._beside:
            probe.close()
        self._table.close()
        self._proc.close()

    # Who is due

    def _note_motion(self, now: float) -> None:
        elapsed = max(1e-3, now - self._last_round_at)
        self._purse = min(PURSE, self._purse + INCOME * elapsed)
        self._last_round_at = now
        for pid in self._motion.keys() - self._table.pids:
            del self._motion[pid]
            self._looks.pop(pid, None)
            self._moved.discard(pid)
        for pid in self._table.stirred:
            threads = self._table.threads_of(pid)
            motion = self._motion.setdefault(pid, _Motion(threads, now))
            motion.note(threads, pid, now, elapsed)
            if pid not in self._looks or self._looks[pid].threads is not motion.threads:
                self._moved.add(pid)
        before, self._awake = self._awake, frozenset(
            pid for pid in {*self._awake, *self._table.stirred} if pid in self._motion and not self._motion[pid].stands(now)
        )  # fmt: skip
        if before != self._awake:
            self._others_may_have = None

    def _due(self, now: float) -> list[int]:
        """Pids to look at in this round, the most telling first."""
        self._rounds += 1
        if self._rounds == 1 and not self._eager:
            return []
        # A process only just born would be caught in its start-up.
        candidates = sorted(self._moved & self._table.living)
        someone_stands = not self._table.living <= self._awake
        self._note_new_standstills(candidates, now)
        due = [pid for pid in candidates if self._is_due(pid, now, someone_stands)]
        due.sort(key=self._urgency)
        urgent = [pid for pid in due if self._is_urgent(pid)]
        again = [pid for pid in due if not self._is_urgent(pid)]
        if self._eager:
            return urgent + again[:PER_ROUND]
        allowed = min(PER_ROUND, int(self._purse))
        self.pending = len(urgent) > allowed and self._purse - allowed >= 1
        self._all_due = self._all_due and self.pending
        return (urgent + (again[:AGAIN_PER_ROUND] if self._purse >= RESERVE else []))[:allowed]

    def _is_urgent(self, pid: int) -> bool:
        """A look that tells something new; to look again can wait its turn."""
        return self._all_due or pid not in self._looks or pid in self._newly_standing or pid == self._attended

    def _is_due(self, pid: int, now: float, someone_stands: bool) -> bool:  # noqa: FBT001  a fact
        look, motion = self._looks.get(pid), self._motion[pid]
        if look is None:
            return True
        if look.threads is motion.threads:
            return False
        if self._all_due and look.at < now - FIRST_INTERVAL_S:
            return True
        if pid in self._newly_standing or pid in self._standing_elsewhere:
            return True
        if now < look.at + self._interval(pid, look) * 0.9:
            return False
        return self._eager or someone_stands or pid == self._attended

    def _interval(self, pid: int, look: _Look) -> float:
        """Seconds between two looks. One that went back to a call it was seen in before has nothing new to show."""
        if self._eager:
            return FIRST_INTERVAL_S
        if pid == self._table.root_pid:
            return min(look.interval_s, ROOT_INTERVAL_S)
        return LONGEST_INTERVAL_S if pid in self._standing_again else look.interval_s

    def _note_new_standstills(self, candidates: list[int], now: float) -> None:
        """Processes that went to stand in a call they were not seen in lately: one cheap read tells.

        With them something may have begun, so those that keep moving are soon looked at again too.
        """
        self._newly_standing, self._standing_again, self._standing_elsewhere = set(), set(), set()
        for pid in candidates:
            look, motion = self._looks.get(pid), self._motion[pid]
            if look is None or look.threads is motion.threads or not motion.rests(now):
                continue
            call = self._table.main_call(pid)
            if call not in look.known_calls:
                self._newly_standing.add(pid)
            elif call == look.known_calls[0] or not motion.rests(now, RESTS_LONG_S):
                self._standing_again.add(pid)
            else:
                self._standing_elsewhere.add(pid)
        if self._newly_standing:
            for pid, look in self._looks.items():
                if not self._motion[pid].rests(now):
                    look.interval_s = min(look.interval_s, WOKEN_INTERVAL_S)

    def _urgency(self, pid: int) -> tuple[int, float]:
        look = self._looks.get(pid)
        if pid == self._attended:
            return 0, 0.0
        if pid == self._table.root_pid:
            return 1, 0.0
        return (2, 0.0) if look is None else (3, look.at)

    # Looking

    def _look_at(self, pids: list[int], now: float) -> list[ProbeReport]:
        # Imported at the first look: the first round, which shows processes only, should not wait for the rest.
        from mpmon.probes.kernel import KernelLook
        from mpmon.probes.stacks import StackProbe

        if self._stack_probe is None and self._stacks != "never":
            self._stack_probe = StackProbe(self._proc)
        self._table.refresh_names(pids)
        self._table.refresh_settings(pids)
        self._table.measure_shared_memory(self._worth_measuring(pids))
        started = self._now()
        kernel = KernelLook(self._proc, now)
        kernel.look(pids)
        kernel_s = self._now() - started
        looks = {pid: _Look(pid, now, self._motion[pid].threads, kernel) for pid in pids}
        for look in looks.values():
            look.known_calls = (self._table.main_call(look.pid),)
        dumped = [pid for pid in pids if not self._keeps_stacks(looks[pid])]
        started = self._now()
        reports = [ProbeReport(name="kernel", ok=not kernel.unknowns, seconds=round(kernel_s, 4))]
        if self._stack_probe:
            self._purse -= len(dumped)
            stacks, unknowns = self._stack_probe.dump(dumped, self._now)
            for pid in dumped:
                looks[pid].stacks = stacks.get(pid, ())
                if pid in unknowns and not self._keeps_for_a_while(looks[pid], unknowns[pid]):
                    looks[pid].unknowns += (unknowns[pid],)
            problem = next((row.reason for row in unknowns.values() if not row.gone), None)
            seconds = round(self._now() - started, 4)
            reports.append(ProbeReport(name="stacks", ok=problem is None, seconds=seconds, problem=problem))
        for pid, look in looks.items():
            look.follow(self._looks.get(pid))
            self._looks[pid] = look
            self._moved.discard(pid)
        self._others_may_have = None
        self._name_lock_holders()
        reports += self._search_ledgers()
        reports += self._look_inside(pids)
        self._joined.stale = True
        return reports

    def _keeps_stacks(self, look: _Look) -> bool:
        """Back in the same calls, it need not be dumped again. But the root's locals say whom it waits for now."""
        before = self._looks.get(look.pid)
        exempt = self._eager or look.pid == self._table.root_pid
        return not exempt and look.same_calls(before) and look.runs_since_dump(before) <= KEPT_RUNS

    def _keeps_for_a_while(self, look: _Look, unknown: Unknown) -> bool:
        """Where its frames changed too fast this time, those of a moment ago stay: it is known to run."""
        from mpmon.probes.stacks import TORN

        before = self._looks.get(look.pid)
        if before is None or not before.stacks or TORN not in unknown.reason:
            return False
        if look.at - before.stacks[0].taken_at > TORN_FOR_S:
            return False
        look.stacks = None
        return True

    def _worth_measuring(self, pids: list[int]) -> list[int]:
        """Whose shared memory is measured: the one the user looks at, or once for a report on a job of ordinary size."""
        if self._eager and len(self._motion) <= SMALL_JOB:
            return [pid for pid in pids if pid not in self._looks]
        return [pid for pid in pids if pid == self._attended]

    def _name_lock_holders(self) -> None:
        """Where somebody waits for the lock of a file, or who took it has it no more: the processes whose open files have it."""
        locks = {item.id: item for look in self._looks.values() for item in look.objects if item.kind == "file lock"}
        if not locks:
            return
        from mpmon.probes.file_locks import has_lock

        handles = [row for look in self._looks.values() for row in look.handles if row.object in locks]
        openers = {(row.object, row.pid) for row in handles}
        wanted = {name for look in self._looks.values() for row in look.blocked for name in row.waits_on}
        wanted |= {item.id for item in locks.values() if any((item.id, pid) not in openers for pid in item.holders)}
        holders: dict[str, tuple[int, ...]] = {}
        for row in handles:
            if (
                row.fd is not None
                and row.object in wanted
                and row.pid not in holders.get(row.object, ())
                and has_lock(self._proc, row.pid, row.fd)
            ):
                holders[row.object] = (*holders.get(row.object, ()), row.pid)
        for look in self._looks.values():
            look.objects = tuple(_with_holders(item, holders.get(item.id, ())) for item in look.objects)

    def _search_ledgers(self) -> list[ProbeReport]:
        """Where somebody waits for a lock between processes, ask each process that maps it what it holds of it."""
        items = [item for look in self._looks.values() for item in look.objects]
        wanted = frozenset(item.id for item in items if item.kind == "semaphore" and not item.value)
        asked = [look for look in self._looks.values() if look.needs_ledger(wanted)]
        if not asked:
            return []
        from mpmon.probes.semaphores import semaphore_uses

        started = self._now()
        for look in asked if self._eager else asked[:LEDGERS_PER_ROUND]:
            look.semaphores, look.ledger_problem = semaphore_uses(self._proc, look.pid, wanted)
            look.ledger_of = wanted
        problem = next((look.ledger_problem.reason for look in asked if look.ledger_problem), None)
        seconds = round(self._now() - started, 4)
        return [ProbeReport(name="semaphores", ok=problem is None, seconds=seconds, problem=problem)]

    def _look_inside(self, pids: list[int]) -> list[ProbeReport]:
        """Where a Python thread waits for a lock of its own process, ask the interpreter who holds it; and ask parents which
        children they remember.

        The parent of one that waits is asked for locks too: it may have forked while one of its threads had that lock.
        """
        asleep = [pid for pid in pids if self._looks[pid].sleepers()]
        above = self._table.parents
        parents = {above.get(pid, 0) for pid in asleep}
        having_children = {self.root[0], *above.values()}
        families = [pid for pid in pids if self._looks[pid].stacks and pid in having_children]
        busy = [pid for pid in pids if self._looks[pid].runners]
        asked = list(dict.fromkeys((*asleep, *sorted(pid for pid in parents if pid in self._looks), *families, *busy)))
        if not asked:
            return []
        from mpmon.probes.interpreter import look_inside

        started = self._now()
        for pid in asked:
            look = self._looks[pid]
            children = frozenset(child for child, parent in above.items() if parent == pid)
            keeps = look.remembers(children)
            is_parent = pid in having_children and not keeps
            found = look_inside(self._proc, pid, look.sleepers(), runners=look.runners, is_parent=is_parent)
            look.note_turns(found.turns)
            look.locks, look.awaited, look.lock_problem = found.locks, found.awaited, found.unknown
            if not keeps:
                look.remembered, look.children = found.remembered, children
        problem = next((row.reason for pid in asked if (row := self._looks[pid].lock_problem)), None)
        return [ProbeReport(name="locks", ok=problem is None, seconds=round(self._now() - started, 4), problem=problem)]

    def _assemble(
        self, now: float, processes: tuple[Process, ...], threads: tuple[Thread, ...], reports: tuple[ProbeReport, ...]
    ) -> Snapshot:
        pid, start_time = self.root
        joined = self._joined.rows(self._looks, self._table.unknowns)
        return Snapshot(
            taken_at=now, root_pid=pid, root_start_time=start_time, host=self._host, cpu_count=self._cpus,
            processes=processes, threads=threads, exits=self._table.exits, probes=reports,
            blocked=joined.blocked, objects=joined.objects, handles=joined.handles, outsiders=self._strangers(now),
            semaphores=joined.semaphores, locks=joined.locks, awaited=joined.awaited, remembered=joined.remembered,
            stacks=joined.stacks,
            unknowns=joined.unknowns, cgroups=self._cgroups.look(processes, now),
        )  # fmt: skip

    def _strangers(self, now: float) -> tuple[Handle, ...]:
        """Processes outside of the job that have what somebody stands still for."""
        if self._others_may_have is None:
            still = (look.others_may_have for pid, look in self._looks.items() if pid not in self._awake)
            self._others_may_have = frozenset().union(*still)
        return self._outsiders.holders(self._others_may_have, self._motion.keys(), now)

    def _with_numbers(self, snapshot: Snapshot, recorder: FlightRecorder) -> Snapshot:
        """The snapshot with what the Flight Recorders said last; they are read beside the loop."""
        from mpmon.probes.flight_recorder import Look

        now = snapshot.taken_at
        rested = [motion.ran_at for motion in self._motion.values() if motion.rests(now)]
        born = sorted(snapshot.processes, key=lambda row: (row.pid != snapshot.root_pid, row.start_time))
        said = recorder.look(Look(self._proc, tuple(row.pid for row in born), self._now), max(rested, default=None))
        return msgspec.structs.replace(
            snapshot, collectives=said.collectives, flight_records=said.records,
            unknowns=(*snapshot.unknowns, *said.unknowns) if said.unknowns else snapshot.unknowns,
            probes=(*snapshot.probes, said.report) if said.report else snapshot.probes,
        )  # fmt: skip


class _Motion:
    """When the main thread of one process ran."""

    __slots__ = ("main", "ran_at", "share", "threads")

    def __init__(self, threads: tuple[Thread, ...], now: float) -> None:
        self.threads = threads
        self.main: Thread | None = None
        self.ran_at = now
        self.share = 1.0

    def note(self, threads: tuple[Thread, ...], pid: int, now: float, elapsed: float) -> None:
        if threads is self.threads and self.main is not None:
            return
        self.threads = threads
        main = next((row for row in threads if row.tid == pid), None)
        if main is not self.main:
            if main and self.main:
                self.share = (main.run_ns - self.main.run_ns) / 1e9 / elapsed
            self.main = main
            self.ran_at = now

    def rests(self, now: float, seconds: float = STANDS_AFTER_S) -> bool:
        """It has not run for so long."""
        return now - self.ran_at >= seconds

    def stands(self, now: float) -> bool:
        """It rests, or only naps."""
        return now - self.ran_at >= STANDS_AFTER_S or self.share < NAPPER_SHARE


class _Look:
    """The rows of the last thorough look at one process."""

    def __init__(self, pid: int, at: float, threads: tuple[Thread, ...], kernel: KernelLook) -> None:
        self.pid = pid
        self.at = at
        self.threads = threads
        self.interval_s = FIRST_INTERVAL_S
        self.known_calls: tuple[bytes, ...] = ()
        """System calls the main thread was seen in lately, as the kernel prints them, the latest first."""
        self.blocked: tuple[Blocked, ...] = kernel.blocked.get(pid, ())
        self.handles: tuple[Handle, ...] = kernel.handles.get(pid, ())
        names = {*kernel.locked.get(pid, ()), *(name for row in self.blocked for name in row.waits_on)}
        self.objects: tuple[KernelObject, ...] = tuple(kernel.objects[name] for name in sorted(names))
        self.others_may_have = frozenset(
            item.id for item in self.objects if item.kind == "pipe" or (item.kind == "semaphore" and not item.value)
        )
        """Of what it waits on: what processes outside of the job may have as well."""
        self.unknowns: tuple[Unknown, ...] = (kernel.unknowns[pid],) if pid in kernel.unknowns else ()
        self.stacks: tuple[Stack, ...] | None = None
        self.runs = next((row.slices for row in threads if row.tid == pid), 0)
        """How often the main thread had run when its frames were read."""
        self.runners: frozenset[int] = frozenset()
        """Threads found running now and at the look before, on behalf of others who wait."""
        self.semaphores: tuple[SemaphoreUse, ...] = ()
        self.ledger_of: frozenset[str] = frozenset()
        self.ledger_problem: Unknown | None = None
        self.locks: tuple[LockUse, ...] = ()
        self.awaited: tuple[Awaited, ...] = ()
        self.remembered: tuple[Remembered, ...] = ()
        self.children: frozenset[int] = frozenset()
        """Those it had when it was asked whom it remembers."""
        self.lock_problem: Unknown | None = None

    def sleepers(self) -> dict[int, str]:
        """Threads with Python frames that wait in a futex of their process, with the id of its word.

        A queue's feeder thread waits for items, and most processes have one: nothing is to be learned from it.
        """
        python = {row.tid: row.thread_name for row in self.stacks or ()}
        return {
            row.tid: name for row in self.blocked for name in row.waits_on
            if name.startswith("futex:") and row.tid in python and not python[row.tid].startswith(FEEDER)
        }  # fmt: skip

    def note_turns(self, turns: Mapping[int, tuple[tuple[int, int], ...]]) -> None:
        """How far the loops of its runners are."""
        if turns:
            self.stacks = tuple(
                msgspec.structs.replace(row, turns=turns[row.tid]) if row.tid in turns else row
                for row in self.stacks or ()
            )

    def needs_ledger(self, wanted: frozenset[str]) -> bool:
        """It maps one of these semaphores and was not asked for them since it last moved."""
        return not wanted <= self.ledger_of and any(handle.object in wanted for handle in self.handles)

    def remembers(self, children: frozenset[int]) -> bool:
        """It has the children that it had when it was asked for them, knew all of them, and how all others have ended."""
        known = {row.child for row in self.remembered}
        ended = (row.returncode for row in self.remembered if row.child not in children)
        return bool(children) and children == self.children and children <= known and None not in ended

    def same_calls(self, before: _Look | None) -> bool:
        """Every thread is back in the very system call of the look before: same arguments, same stack pointer."""
        if before is None or not before.stacks or not self.blocked:
            return False
        return _calls(self.blocked) == _calls(before.blocked) and all(
            row.syscall not in (None, "running") for row in self.blocked
        )

    def runs_since_dump(self, before: _Look | None) -> int:
        """How often the main thread has run since its frames were read."""
        return self.runs - before.runs if before else 0

    def follow(self, before: _Look | None) -> None:
        """Keep what did not change since the look before, as the very same rows."""
        if before is None:
            self.stacks = self.stacks or ()
            return
        self.known_calls = tuple(dict.fromkeys((*self.known_calls, *before.known_calls)))[:KNOWN_CALLS]
        if self.stacks is None:
            self.stacks, self.runs = before.stacks, before.runs
        self.remembered, self.children = before.remembered, before.children
        self.handles = before.handles if before.handles == self.handles else self.handles
        serving = {row.tid for row in self.stacks or () if not SERVES.isdisjoint(_bare_names(row))}
        self.runners = frozenset(serving & _running(self.blocked) & _running(before.blocked))
        if _functions(self.stacks) == _functions(before.stacks):
            self.interval_s = min(LONGEST_INTERVAL_S, before.interval_s * 1.7)


class _Joined:
    """The tables of all looks as one; built anew only after a look, so unchanged rounds share the same tuples."""

    def __init__(self) -> None:
        self.stale = True
        self._pids: tuple[int, ...] = ()
        self._process_unknowns: tuple[Unknown, ...] = ()
        self.blocked: tuple[Blocked, ...] = ()
        self.objects: tuple[KernelObject, ...] = ()
        self.handles: tuple[Handle, ...] = ()
        self._handles: tuple[tuple[Handle, ...], ...] = ()
        """The same by process: most of a large job's rows, and after most looks the same ones."""
        self.stacks: tuple[Stack, ...] = ()
        self.semaphores: tuple[SemaphoreUse, ...] = ()
        self.locks: tuple[LockUse, ...] = ()
        self.awaited: tuple[Awaited, ...] = ()
        self.remembered: tuple[Remembered, ...] = ()
        self.unknowns: tuple[Unknown, ...] = ()

    def rows(self, looks: dict[int, _Look], process_unknowns: dict[int, Unknown]) -> _Joined:
        pids, unknowns = tuple(looks), tuple(process_unknowns.values())
        if self.stale or pids != self._pids or unknowns != self._process_unknowns:
            self._join([looks[pid] for pid in sorted(looks)], unknowns)
            self._pids, self._process_unknowns, self.stale = pids, unknowns, False
        return self

    def _join(self, looks: Iterable[_Look], process_unknowns: tuple[Unknown, ...]) -> None:
        looks = list(looks)
        self.blocked = tuple(row for look in looks for row in look.blocked)
        handles = tuple(look.handles for look in looks)
        if not same_rows(handles, self._handles):
            self._handles, self.handles = handles, shared(tuple(chain.from_iterable(handles)), self.handles)
        self.stacks = tuple(row for look in looks for row in look.stacks or ())
        self.semaphores = shared(tuple(row for look in looks for row in look.semaphores), self.semaphores)
        self.locks = shared(tuple(row for look in looks for row in look.locks), self.locks)
        self.awaited = shared(tuple(row for look in looks for row in look.awaited), self.awaited)
        self.remembered = shared(tuple(row for look in looks for row in look.remembered), self.remembered)
        problems = [row for look in looks for row in (look.ledger_problem, look.lock_problem) if row]
        self.unknowns = (*process_unknowns, *(row for look in looks for row in look.unknowns), *problems)
        objects = {row.id: row for look in sorted(looks, key=lambda look: look.at) for row in look.objects}
        self.objects = shared(tuple(objects[name] for name in sorted(objects)), self.objects)


def _with_holders(item: KernelObject, holders: tuple[int, ...]) -> KernelObject:
    """Where one that took the lock of a file once has it no more, those who have."""
    stale = holders and item.kind == "file lock" and not set(item.holders) <= set(holders)
    return msgspec.structs.replace(item, holders=holders) if stale else item


def _calls(rows: tuple[Blocked, ...]) -> list[tuple[int, str | None, tuple[int, ...], str]]:
    return [(row.tid, row.syscall, row.args, row.state) for row in rows]


def _running(rows: tuple[Blocked, ...]) -> set[int]:
    return {row.tid for row in rows if row.syscall == "running" or row.state == "R"}


def _bare_names(stack: Stack) -> set[str]:
    return {frame.function.rpartition(".")[2] for frame in stack.frames}


def _functions(stacks: tuple[Stack, ...] | None) -> set[tuple[int, tuple[str, ...]]]:
    return {(stack.tid, tuple(frame.function for frame in stack.frames)) for stack in stacks or ()}
