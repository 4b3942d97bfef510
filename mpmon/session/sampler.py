"""One round of the loop: always the cheap facts of every process, and expensive facts of the few that are due.

A round goes from top to bottom through `Sampler.round`:

1. probes beside the loop begin their slow queries (`side_probe`);
2. the process table reads every process and thread of the job (some milliseconds for 256 processes);
3. `activity` notes which processes have run since the previous round and which stand still;
4. `schedule` chooses the processes that are due for a thorough look, as far as the `budget` goes;
5. `thorough` looks at those (one `look` per process) and finds the `holders` of what they wait for;
6. `spots` shows where the main threads of ranks were since the previous round;
7. the tables of all looks, `joined`, and all else become a `Snapshot`;
8. if that would show a hang, the process table is read again, processes that have run since they were looked at are looked
   at again (`renewals`), py-spy also reads those stacks that the hang rests on and that mpmon has read itself, and `natives`
   reads the C and C++ frames of the threads that the hang is about, and samples those that run.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from mpmon.model import Handle, ProbeReport, Process, Snapshot, Thread
from mpmon.probes.cgroups import CgroupTable
from mpmon.probes.files import Proc
from mpmon.probes.outsiders import Outsiders
from mpmon.probes.processes import ProcessTable
from mpmon.session.activity import Activity
from mpmon.session.budget import Budget
from mpmon.session.natives import REPORT_S, ROUND_S, NativeLooks, all_threads
from mpmon.session.renewals import Foreseen, Renewals
from mpmon.session.schedule import Schedule
from mpmon.session.spots import Spots
from mpmon.session.thorough import StackMode, ThoroughLooks, joined_reports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mpmon.probes.flight_recorder import FlightRecorder
    from mpmon.probes.stacks import StackProbe
    from mpmon.session.side_probe import SideProbe


LEAST_S = 1.0
"""Seconds each round has for thorough looks, even after the total time: the last round shows what has not moved."""

NATIVE_LOOKS = 2
"""Readings of C frames in a round: of the threads that a hang rests on, then of the threads that those wait for."""

_NATIVE_MODES: frozenset[StackMode] = frozenset({"auto", "native"})
"""Modes that read frames of C."""


class Sampler:
    """Makes snapshots of one job."""

    def __init__(
        self,
        proc: Proc,
        root_pid: int,
        *,
        now: Callable[[], float],
        host: str,
        addresses: tuple[str, ...] | None = None,
        stacks: StackMode = "auto",
        eager: bool = False,
        seconds: float = math.inf,
        stack_probe: StackProbe | None = None,
        flight_recorder: FlightRecorder | None = None,
        side_probes: Sequence[SideProbe] = (),
    ) -> None:
        """`eager` is for one report: each round looks at every process that has run, see `Schedule`.

        Thorough looks end `seconds` from now, but each round has `LEAST_S` for them.

        Raises:
            ProcessLookupError: there is no such process.
        """
        self._proc = proc
        self._now = now
        self._host, self._addresses = host, addresses
        self._cpus = os.cpu_count() or 1
        self._table = ProcessTable(proc, root_pid)
        self._cgroups = CgroupTable(proc)
        self._outsiders = Outsiders(proc)
        self._flight_recorder = flight_recorder
        self._side_probes = tuple(side_probes)
        began = now()
        self._until = began + seconds
        budget = Budget(began)
        self._activity = Activity(self._table, began)
        self._looks = ThoroughLooks(
            proc, self._table, self._activity, budget, now, stacks=stacks, stack_probe=stack_probe, eager=eager
        )
        self._natives = NativeLooks(proc, round_s=REPORT_S if eager else ROUND_S)
        self._stacks: StackMode = stacks
        self._spots = Spots(self._table, self._activity, self._looks.last, None if eager else budget, now=now)
        self._renewals = Renewals(self._table, self._activity, self._looks.last)
        self._schedule = Schedule(self._table, self._activity, self._looks.last, budget, eager=eager)

    @property
    def root(self) -> tuple[int, float]:
        """Pid and start time of the job's root."""
        return self._table.root_pid, self._table.root_start_time

    def start_ticks(self, pid: int) -> int | None:
        """When a process of the job began, clock ticks since boot; `None` if that was not read."""
        return self._table.start_ticks(pid)

    @property
    def pending(self) -> bool:
        """More processes are due than one round may look at: the next round should follow at once."""
        return self._schedule.pending or self._renewals.pending

    def attend(self, pid: int | None) -> None:
        """The user looks at this process: keep its rows fresh."""
        self._schedule.attended = pid

    def note_ranks(self, pids: Collection[int]) -> None:
        """Set the ranks: `read_spots` reads where their main threads are."""
        self._spots.pids = tuple(sorted(pids))

    @property
    def has_ranks(self) -> bool:
        """Whether there are ranks."""
        return bool(self._spots.pids)

    def read_spots(self) -> None:
        """Read where the main threads of ranks are at this moment; the next snapshot contains it."""
        self._spots.read()

    def look_now(self) -> None:
        """Look at everything in the next round."""
        self._schedule.look_now()

    def round(self, foresee: Callable[[Snapshot], Foreseen] | None = None) -> Snapshot:
        """All facts of this moment.

        `foresee` tells what the snapshot would show. Of the threads that a hang would rest on a second reader also reads the
        stacks; their C and C++ frames are read, then those of the threads that they wait for; threads that run are sampled.
        """
        now = self._now()
        for probe in self._side_probes:
            probe.begin()
        processes, threads = self._table.look(now)
        reports = [ProbeReport(name="processes", ok=True, seconds=round(self._now() - now, 4))]
        self._activity.note(now)
        self._looks.forget_ended()
        self._schedule.untold = self._spots.untold()
        if due := self._schedule.due(now):
            until = max(self._until, now + LEAST_S)
            reports += self._looks.look(due, now, self._schedule.attended, until)
        self._looks.refresh_connections(now)
        snapshot = self._snapshot(now, processes, threads, reports)
        for probe in self._side_probes:
            snapshot = probe.add(snapshot)
        if self._flight_recorder is not None:
            snapshot = self._with_collectives(snapshot, self._flight_recorder)
        if self._stacks == "native":
            snapshot = self._natives.add(snapshot, all_threads(snapshot.threads))
        if foresee is None:
            return snapshot
        foreseen = foresee(snapshot)
        if foreseen.is_hang:
            snapshot = self._counted_again(snapshot)
        if older := self._renewals.due(foreseen, snapshot.taken_at):
            snapshot = self._renewed(snapshot, older)
            foreseen = foresee(snapshot)
        snapshot = self._seconded(snapshot, foreseen.threads)
        for _ in range(NATIVE_LOOKS if self._stacks == "auto" else 0):
            before, snapshot = snapshot, self._natives.add(snapshot, foresee(snapshot).threads)
            if snapshot is before:
                break
        if self._stacks in _NATIVE_MODES and self._natives.any_runs:
            snapshot = self._natives.sample(snapshot, foresee(snapshot).threads)
        return snapshot

    def _counted_again(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the counters of this moment: while others were looked at, one may have got what it waits for."""
        now = self._now()
        processes, threads = self._table.look(now)
        self._activity.note(now)
        return msgspec.structs.replace(
            snapshot, taken_at=now, processes=processes, threads=threads, exits=self._table.exits
        )

    def _renewed(self, snapshot: Snapshot, pids: list[int]) -> Snapshot:
        """The snapshot after another look at these processes."""
        now, before = snapshot.taken_at, self._looks.tables().unknowns
        reports = self._looks.look(pids, now, self._schedule.attended, max(self._until, now + LEAST_S))
        others = tuple(row for row in snapshot.unknowns if row not in before)
        found = self._with_looks(snapshot)
        return msgspec.structs.replace(
            found, unknowns=(*found.unknowns, *others), probes=joined_reports((*found.probes, *reports))
        )

    def _seconded(self, snapshot: Snapshot, threads: Mapping[int, Collection[int]]) -> Snapshot:
        """The snapshot with a second reading of the stacks of these threads, if there was none yet."""
        unknowns = self._looks.second(threads)
        if unknowns is None:
            return snapshot
        return msgspec.structs.replace(
            snapshot, stacks=self._looks.tables().stacks, unknowns=(*snapshot.unknowns, *unknowns)
        )

    def close(self) -> None:
        """Stop everything and close all descriptors; the flight recorder is closed by its creator."""
        self._looks.close()
        for probe in self._side_probes:
            probe.close()
        self._table.close()
        self._proc.close()

    def _snapshot(
        self, now: float, processes: tuple[Process, ...], threads: tuple[Thread, ...], reports: Sequence[ProbeReport]
    ) -> Snapshot:
        pid, start_time = self.root
        return self._with_looks(Snapshot(
            taken_at=now, root_pid=pid, root_start_time=start_time, host=self._host, addresses=self._addresses,
            cpu_count=self._cpus, processes=processes, threads=threads, exits=self._table.exits, probes=tuple(reports),
            spots=self._spots.rows, native_stacks=self._natives.still_true(threads),
            cgroups=self._cgroups.look(processes, now),
        ))  # fmt: skip

    def _with_looks(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the tables of all looks."""
        looks = self._looks.tables()
        return msgspec.structs.replace(
            snapshot, blocked=looks.blocked, objects=looks.objects, handles=looks.handles,
            outsiders=self._outside_holders(snapshot.taken_at),
            semaphores=looks.semaphores, locks=looks.locks, awaited=looks.awaited, remembered=looks.remembered,
            tasks=looks.tasks, stacks=looks.stacks, unknowns=looks.unknowns, mounts=self._looks.mounts(),
        )  # fmt: skip

    def _outside_holders(self, now: float) -> tuple[Handle, ...]:
        """Processes outside of the job that have an object on which a standing process waits.

        An object without a name was made by the job, unless its root was started with it; a daemon that has such an
        object belongs to the job.
        """
        found = self._outsiders.holders(self._looks.may_be_outside(), self._table.pids, now)
        given = self._looks.standard_streams(self._table.root_pid) if found else ()
        self._table.recognize(frozenset(row.pid for row in found if row.object not in given))
        return found

    def _with_collectives(self, snapshot: Snapshot, recorder: FlightRecorder) -> Snapshot:
        """The snapshot with the last state of the Flight Recorders, which a separate thread reads."""
        from mpmon.probes.flight_recorder import Look

        born = sorted(snapshot.processes, key=lambda row: (row.pid != snapshot.root_pid, row.start_time))
        look = Look(self._proc, tuple(row.pid for row in born), self._now)
        said = recorder.look(look, self._activity.last_rest_began(snapshot.taken_at))
        return msgspec.structs.replace(
            snapshot, collectives=said.collectives, flight_records=said.records,
            unknowns=(*snapshot.unknowns, *said.unknowns) if said.unknowns else snapshot.unknowns,
            probes=(*snapshot.probes, said.report) if said.report else snapshot.probes,
        )  # fmt: skip
