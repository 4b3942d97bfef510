"""The processes of one job from round to round: which are new, which have run, which are gone."""

from __future__ import annotations

import errno
from collections.abc import Iterable, KeysView
from itertools import chain

import msgspec

from mpmon.model import Exit, Process, Thread, Unknown
from mpmon.probes.files import Proc
from mpmon.probes.pidfds import Pidfds
from mpmon.probes.processes.member import Member
from mpmon.probes.standstill import Reader, persistently
from mpmon.probes.stat import Stat, boot_time
from mpmon.probes.tree import Tree
from mpmon.probes.users import user_names

REREAD_ROUNDS = 10
"""A process that has not run is still read every tenth round: memory may have been taken from it."""

FOLDERS = ("MPMON_RUN_DIR", "XDG_RUNTIME_DIR")
"""Environment variables that name folders of the shim."""

KEPT_EXITS = 256
"""Most ends of processes that are remembered, the latest ones."""


class ProcessTable:
    """The processes and threads of one job, from round to round."""

    def __init__(self, proc: Proc, root_pid: int) -> None:
        """
        Raises:
            ProcessLookupError: there is no such process.
        """
        self._proc = proc
        self.root_pid = root_pid
        self._boot = boot_time(proc)
        self._users = user_names()
        self._pidfds = Pidfds(proc)
        self._reader = Reader()
        """Reads processes that are not yet known to belong to the job or not."""
        self._known: set[str] = set()
        """Names in /proc that were already examined: pids of the job, other pids, and files."""
        self._census: bytes | None = None
        """The machine's census when /proc was last listed."""
        self._members: dict[int, Member] = {}
        self._clocks: dict[int, int | None] = {}
        """CPU time of each process in the last round, nanoseconds; `None` if it could not be read."""
        self.living: set[int] = set()
        """Pids of the processes that have not ended."""
        self.may_have_run: list[int] = []
        """Pids of the processes that may have run since the last round, including new ones."""
        self._rounds = 0
        self.exits: tuple[Exit, ...] = ()
        self.unknowns: dict[int, Unknown] = {}
        stat = Stat.read(proc, root_pid)
        if stat is None:
            raise ProcessLookupError(errno.ESRCH, "no such process", str(root_pid))
        self.root_start_time = stat.started_at(self._boot)
        self._tree = Tree(proc, root_pid, stat)

    def look(self, now: float) -> tuple[tuple[Process, ...], tuple[Thread, ...]]:
        """One round: all processes of the job by pid, and all their threads."""
        self._find_new()
        self._rounds += 1
        self.may_have_run = []
        ran = self._ran()
        due = list(self._members)[-self._rounds % REREAD_ROUNDS :: REREAD_ROUNDS]
        for pid in (*ran, *(pid for pid in due if pid not in ran)):
            self._refresh(self._members[pid], now, ran=pid in ran)
        before, self.living = self.living, {pid for pid, member in self._members.items() if not member.row.ended}
        if ended := before - self.living:
            for orphan in [member for member in self._members.values() if member.row.ppid in ended]:
                self._refresh(orphan, now, ran=False)
            self.may_have_run = [pid for pid in self.may_have_run if pid in self._members]
        members = [self._members[pid] for pid in sorted(self._members)]
        return (
            tuple(member.row for member in members),
            tuple(chain.from_iterable(member.threads.rows for member in members)),
        )

    @property
    def pids(self) -> KeysView[int]:
        """All processes of the job."""
        return self._members.keys()

    def recognize(self, pids: frozenset[int]) -> None:
        """Note that these processes hold objects that only the job can have given them: the next round adds those whose
        parent has ended, with all processes that they have started.
        """
        if pids != self._tree.kin:
            self._tree.kin = pids
            self._known = {str(pid) for pid in self._members}
            self._census = None

    @property
    def parents(self) -> dict[int, int]:
        """The parent of each process according to the kernel, by pid."""
        return {pid: member.row.ppid for pid, member in self._members.items()}

    def start_ticks(self, pid: int) -> int | None:
        """When a process of the job began, clock ticks since boot."""
        member = self._members.get(pid)
        return member.start_ticks if member else None

    def main_call(self, pid: int) -> bytes:
        """The system call of the main thread as the kernel prints it; empty if it cannot be read."""
        try:
            return self._proc.reread(self._proc.path(pid, "task", pid, "syscall"))
        except OSError:
            return b""

    def named_folders(self, pid: int) -> list[str]:
        """Folders of the shim that the environment of the process names."""
        member = self._members.get(pid)
        kept = (member.row.environment if member else None) or {}
        return [kept[name] for name in FOLDERS if name in kept]

    def threads_of(self, pid: int) -> tuple[Thread, ...]:
        """The threads of one process; the same tuple object as long as none of them ran."""
        return self._members[pid].threads.rows

    def refresh_names(self, pids: Iterable[int]) -> None:
        """Read the names of threads again: torch and libraries set them after a thread has started."""
        for pid in pids:
            if pid in self._members:
                self._members[pid].threads.refresh_names()

    def refresh_settings(self, pids: Iterable[int]) -> None:
        """Read again what these processes may change at any time: handled signals, working directory."""
        for pid in pids:
            if pid in self._members:
                self._members[pid].refresh_settings()

    def measure_shared_memory(self, pids: Iterable[int]) -> None:
        """Read the proportional set size of these processes: up to 3 ms each, so only for the few that are viewed."""
        for pid in pids:
            if pid in self._members:
                self._members[pid].measure_pss()

    def close(self) -> None:
        """Close every kept descriptor."""
        for member in self._members.values():
            member.close()
        self._reader.close()

    def _ran(self) -> dict[int, int | None]:
        """The clocks of the processes of which any thread ran, or may have run, since the last round.

        A process whose state changes, or that ends, has to run for that.
        """
        before = self._clocks
        self._clocks = dict(zip(self._members, self._proc.clocks(self._members), strict=True))
        return {pid: clock for pid, clock in self._clocks.items() if clock is None or clock != before.get(pid)}

    def _find_new(self) -> None:
        before, self._census = self._census, self._proc.census()
        if before is not None and before == self._census:
            return
        names = set(self._proc.names())
        self._known &= names
        unseen = sorted(int(name) for name in names - self._known if name.isdigit())
        # Reading any process of the machine may block; that must not lose what is known of the job.
        stats = persistently(lambda: self._stats(unseen), self._reader) if unseen else {}
        self._known |= names.difference(str(pid) for pid in unseen if pid not in stats)
        for pid in self._tree.joining(stats, self._members):
            self._adopt(pid, stats[pid])

    def _stats(self, pids: Iterable[int]) -> dict[int, Stat]:
        return {pid: stat for pid in pids if (stat := Stat.read(self._proc, pid))}

    def _adopt(self, pid: int, stat: Stat) -> None:
        member = Member(self._proc, pid, stat, self._boot, self._users)
        self._members[pid] = member
        self._pidfds.hold(pid)
        if member.unreadable:
            self.unknowns[pid] = Unknown(table="processes", pid=pid, reason=member.unreadable)

    def _refresh(self, member: Member, now: float, *, ran: bool) -> None:
        rows = member.threads.rows
        if not member.refresh(ran=ran, clock=self._clocks.get(member.pid)):
            self._lose(member, now)
        elif ran or member.threads.rows is not rows:
            self.may_have_run.append(member.pid)

    def _lose(self, member: Member, now: float) -> None:
        member.close()
        del self._members[member.pid]
        self._clocks.pop(member.pid, None)
        self._known.discard(str(member.pid))
        self.unknowns.pop(member.pid, None)
        last = member.row
        if last.exit_code is None:
            last = msgspec.structs.replace(last, exit_code=self._pidfds.status(member.pid))
        self._pidfds.drop(member.pid)
        self.exits = (
            *self.exits[1 - KEPT_EXITS :], Exit(pid=last.pid, start_time=last.start_time, seen_at=now, process=last),
        )  # fmt: skip
