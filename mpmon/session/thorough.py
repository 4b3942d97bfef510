"""Thorough looks: what each thread of a process is blocked in, its stacks, and what holds the objects it waits for.

The kernel shows what a thread is blocked in (about 1 ms per process).  The stacks come from the interpreter (also about
1 ms), or from py-spy if mpmon cannot read the interpreter or was told not to (about 10 ms of CPU).  A process that woke
and went back to the same system calls (a poll with a time limit) keeps its stacks without a dump, unless these calls
are sleeps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Literal

import msgspec

from mpmon.model import BOTH, MPMON, ProbeReport, Stack, Unknown
from mpmon.probes.files import Proc
from mpmon.probes.processes import ProcessTable
from mpmon.session import holders
from mpmon.session.activity import Activity
from mpmon.session.budget import Budget
from mpmon.session.carried import Carried, forget, note_carried
from mpmon.session.connections import Connections
from mpmon.session.joined import JoinedTables
from mpmon.session.look import Look
from mpmon.session.loops import ask_loops
from mpmon.session.nesting import Nesting, note_nesting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mpmon.model import Mount
    from mpmon.probes.file_servers import FileServers
    from mpmon.probes.kernel.holdings import ServedFile
    from mpmon.probes.stacks import StackProbe

StackMode = Literal["auto", "py-spy", "native", "never"]

KEPT_RUNS = 1000
"""Most runs of the main thread for which frames are kept: after more, it may have been elsewhere in between."""

TORN_FOR_S = 5.0
"""Seconds for which the last frames are kept if those of a running process change too fast to be read."""

BATCH = 16
"""Looks between two checks of whether there is time for more."""

NO_TIME = "there was no time to read it; observe longer (--for)"
"""Why nothing is known of a process whose turn did not come."""

SMALL_JOB = 64
"""Most processes of a job whose proportional memory is measured for a report."""


class ThoroughLooks:
    """The last thorough look at each process."""

    def __init__(
        self,
        proc: Proc,
        table: ProcessTable,
        activity: Activity,
        budget: Budget,
        now: Callable[[], float],
        *,
        stacks: StackMode,
        stack_probe: StackProbe | None,
        eager: bool,
    ) -> None:
        """`eager` is for one report: nothing is kept from the previous look, and nothing is left for the next round."""
        self._proc = proc
        self._table = table
        self._activity = activity
        self._budget = budget
        self._now = now
        self._stacks = stacks
        self._stack_probe = stack_probe
        self._eager = eager
        self._seconded: dict[int, tuple[frozenset[tuple[object, ...]], bool]] = {}
        """By process, the calls about which py-spy was last asked, and whether it read the same."""
        self.last: dict[int, Look] = {}
        """By pid, of processes of the job; always the same dictionary object, because `Schedule` reads it too."""
        self._connections = Connections(proc, self.last)
        self._left: tuple[Unknown, ...] = ()
        """For the processes that were due for their first look in the last round, and whose turn did not come."""
        self._loops: holders.Loops = {}
        self._nesting: Nesting = {}
        self._carried: Carried = {}
        self._servers: FileServers | None = None
        self._joined = JoinedTables()
        self._joined_of: tuple[tuple[int, ...], tuple[Unknown, ...]] | None = None
        """The pids and unknowns that the joined tables were made of; `None` after a look."""
        self._waited_on: frozenset[str] = frozenset()
        self._awake: frozenset[int] | None = None
        """The processes that did not stand still when `_waited_on` was found; `None` after a look."""

    def forget_ended(self) -> None:
        """Drop the looks at processes that are gone."""
        self._left = tuple(row for row in self._left if row.pid in self._table.pids)
        for pid in self.last.keys() - self._table.pids:
            del self.last[pid]
            self._seconded.pop(pid, None)
            forget(self._carried, pid)
            if self._stack_probe:
                self._stack_probe.forget(pid)

    def close(self) -> None:
        """End every py-spy that still runs."""
        if self._stack_probe:
            self._stack_probe.close()

    # Looking

    def look(self, pids: list[int], now: float, attended: int | None, until: float = math.inf) -> list[ProbeReport]:
        """Look at these processes, or at as many of them as there is time for, but at least at one batch.

        Args:
            pids: The most informative first.
            now: The moment of the round, seconds since the epoch.
            attended: The process that the user views.
            until: When no further batch is begun, seconds since the epoch.
        """
        reports: list[ProbeReport] = []
        looked: list[int] = []
        for first in range(0, len(pids), BATCH):
            batch = pids[first : first + BATCH]
            reports += self._look(batch, now, attended)
            looked += batch
            if self._now() >= until:
                break
        left = dict.fromkeys((*(row.pid for row in self._left), *pids))
        self._left = tuple(Unknown(table="stacks", pid=pid, reason=NO_TIME) for pid in left if pid not in self.last)
        found = [*joined_reports(reports), *self._ask_holders(looked, until)]
        self._joined_of = self._awake = None
        return found

    def refresh_connections(self, now: float) -> None:
        """Read again the connections that standing processes wait on, which change without the processes running."""
        if self._connections.refresh(self._activity.awake, now):
            self._joined_of = None

    def _look(self, pids: list[int], now: float, attended: int | None) -> list[ProbeReport]:
        self._budget.spend(len(pids))
        self._table.refresh_names(pids)
        self._table.refresh_settings(pids)
        self._table.measure_shared_memory(self._worth_measuring(pids, attended))
        looks, kernel_report = self._ask_kernel(pids, now)
        reports = [kernel_report, *self._dump_stacks(looks)]
        for pid, look in looks.items():
            look.follow(self.last.get(pid))
            self.last[pid] = look
            self._activity.note_look(pid)
        return reports

    def _worth_measuring(self, pids: list[int], attended: int | None) -> list[int]:
        """Processes whose shared memory is measured: the one the user views; for a report on a small job, each once."""
        if self._eager and len(self._table.pids) <= SMALL_JOB:
            return [pid for pid in pids if pid not in self.last]
        return [pid for pid in pids if pid == attended]

    def _ask_kernel(self, pids: list[int], now: float) -> tuple[dict[int, Look], ProbeReport]:
        # Imported at the first look: the first round, which shows processes only, should not wait for it.
        from mpmon.probes.kernel import KernelLook

        started = self._now()
        kernel = KernelLook(self._proc, now)
        kernel.look(pids)
        report = ProbeReport(name="kernel", ok=not kernel.unknowns, seconds=round(self._now() - started, 4))
        looks = {
            pid: Look(pid, now, kernel, runs=self._activity.runs(pid), main_call=self._table.main_call(pid))
            for pid in pids
        }
        return looks, report

    def _dump_stacks(self, looks: Mapping[int, Look]) -> list[ProbeReport]:
        """Read the stacks of the processes whose stacks may have changed since the previous look."""
        probe = self._probe()
        if probe is None:
            return []
        started = self._now()
        dumped = [pid for pid, look in looks.items() if not self._keeps_stacks(look)]
        dumps = probe.dumps
        stacks, unknowns = probe.dump(dumped, self._now)
        # The first dump of each process is included in the cost of its look, however it is made.
        self._budget.spend(0, min(probe.dumps - dumps, sum(pid in self.last for pid in dumped)))
        for pid in dumped:
            looks[pid].stacks = stacks.get(pid, ())
            if pid in unknowns and not self._keeps_for_a_while(looks[pid], unknowns[pid]):
                looks[pid].unknowns += (unknowns[pid],)
        problem = next((row.reason for row in unknowns.values() if not row.gone), None)
        seconds = round(self._now() - started, 4)
        return [ProbeReport(name="stacks", ok=problem is None, seconds=seconds, problem=problem)]

    def second(self, threads: Mapping[int, Collection[int]]) -> list[Unknown] | None:
        """Have py-spy also read the stacks of these threads, by process, as far as mpmon has read them itself.

        Returns why some stacks are withheld, because the two readers disagree; `None` if there was nothing to ask.
        """
        probe = self._probe()
        unknowns: list[Unknown] = []
        asked = False
        for pid, tids in threads.items():
            look = self.last.get(pid)
            own = [row for row in (look.stacks if look else None) or () if row.tid in tids and row.reader == MPMON]
            if probe is None or look is None or not own:
                continue
            calls, known = _calls(own), self._seconded.get(pid)
            if known and known[0] == calls:
                rows, unknown = _seconded_rows(look, own) if known[1] else look.stacks, None
            else:
                dumps = probe.dumps
                rows, unknown = probe.second(pid, look.stacks or (), [row.tid for row in own], self._now)
                self._budget.spend(0, probe.dumps - dumps)
            told = [row for row in rows or () if row.tid in tids]
            self._seconded[pid] = _calls(told), all(row.reader == BOTH for row in told)
            asked |= rows is not look.stacks
            look.stacks = rows
            if unknown:
                look.unknowns += (unknown,)
                unknowns.append(unknown)
        if not asked:
            return None
        self._joined_of = None
        return unknowns

    def _probe(self) -> StackProbe | None:
        """The probe that reads stacks, made at the first look; only here is it decided which reader is used."""
        if self._stack_probe is None and self._stacks != "never":
            from mpmon.probes.stacks import StackProbe

            self._stack_probe = StackProbe(self._proc, by_itself=self._stacks != "py-spy")
        return self._stack_probe

    def _keeps_stacks(self, look: Look) -> bool:
        """Whether, back in the same calls, it needs no dump. The root does: its locals show which process it awaits."""
        before = self.last.get(look.pid)
        exempt = self._eager or look.pid == self._table.root_pid
        return not exempt and look.same_calls(before) and look.runs_since_dump(before) <= KEPT_RUNS

    def _keeps_for_a_while(self, look: Look, unknown: Unknown) -> bool:
        """Keep the frames of a moment ago if they changed too fast to be read now: the process is known to run."""
        from mpmon.probes.stacks import TOO_FAST

        before = self.last.get(look.pid)
        if before is None or not before.stacks or not any(words in unknown.reason for words in TOO_FAST):
            return False
        if look.at - before.stacks[0].taken_at > TORN_FOR_S:
            return False
        look.stacks = None
        return True

    def _ask_holders(self, pids: list[int], until: float) -> list[ProbeReport]:
        holders.note_file_locks(self._proc, self.last)
        holders.note_loops(self._proc, self.last, pids, self._loops)
        note_nesting(self._proc, self.last, self._nesting)
        note_carried(self._proc, self.last, pids, self._carried)
        most = None if self._eager else holders.SEARCHES_PER_ROUND
        return [
            *holders.search_semaphores(self._proc, self.last, self._now, most, until),
            *holders.ask_interpreters(
                self._proc, self.last, pids, self._table, self._now, until=until, eager=self._eager
            ),
            *holders.search_blocks(self._proc, self.last, self._now, until),
            *ask_loops(self._proc, self.last, pids, self._now, until),
        ]

    # What all looks have found together

    def tables(self) -> JoinedTables:
        """The rows of all looks; the same table objects as long as there was no look and no process ended."""
        unknowns = (*self._table.unknowns.values(), *self._left)
        joined_of = tuple(self.last), unknowns
        if joined_of != self._joined_of:
            self._joined.join(self.last, unknowns)
            self._joined_of = joined_of
        return self._joined

    def mounts(self) -> tuple[Mount, ...]:
        """Externally served file systems of the job, and whether they answer."""
        served = {pid: files for pid, look in self.last.items() if (files := (*look.served, *self._named_by(pid)))}
        if not served:
            return ()
        if self._servers is None:
            from mpmon.probes.file_servers import FileServers

            self._servers = FileServers(self._proc, eager=self._eager)
        waited = (item.id for pid in served for item in self.last[pid].objects if item.kind == "mount")
        return self._servers.refresh(served, (name.removeprefix("mount:") for name in waited), self._now())

    def _named_by(self, pid: int) -> tuple[ServedFile, ...]:
        """The file systems of the folders in which the shim of a process writes, if they are externally served."""
        folders = self._table.named_folders(pid)
        if not folders:
            return ()
        from mpmon.probes.kernel.holdings import served_folder

        return tuple(file for folder in folders if (file := served_folder(self._proc, pid, folder)))

    def standard_streams(self, pid: int) -> frozenset[str]:
        """The objects that a process has as its standard input, output and error."""
        look = self.last.get(pid)
        return frozenset(row.object for row in look.handles if row.fd in (0, 1, 2)) if look else frozenset()

    def may_be_outside(self) -> frozenset[str]:
        """The objects standing processes wait on that processes outside of the job may also have."""
        if self._awake is not self._activity.awake:
            self._awake = self._activity.awake
            standing = (look.may_be_outside for pid, look in self.last.items() if pid not in self._awake)
            self._waited_on = frozenset[str]().union(*standing)
        return self._waited_on


def joined_reports(reports: Iterable[ProbeReport]) -> tuple[ProbeReport, ...]:
    """One report of each probe."""
    found: dict[str, ProbeReport] = {}
    for report in reports:
        found[report.name] = _together(found.get(report.name), report)
    return tuple(found.values())


def _together(one: ProbeReport | None, other: ProbeReport) -> ProbeReport:
    """The reports of a probe on two batches as one, with the first problem."""
    if one is None:
        return other
    seconds = round(one.seconds + other.seconds, 4)
    return msgspec.structs.replace(other if one.ok else one, seconds=seconds)


def _seconded_rows(look: Look, own: Collection[Stack]) -> tuple[Stack, ...]:
    return tuple(msgspec.structs.replace(row, reader=BOTH) if row in own else row for row in look.stacks or ())


def _calls(stacks: Iterable[Stack]) -> frozenset[tuple[object, ...]]:
    """Thread, function and line of each call."""
    return frozenset((row.tid, *((frame.function, frame.line) for frame in row.frames)) for row in stacks)
