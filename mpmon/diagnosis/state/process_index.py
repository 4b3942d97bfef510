"""The processes of one snapshot: their roles, parents and children, and who has ended."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cached_property

from mpmon.diagnosis.humanize import several, verb, with_pid
from mpmon.diagnosis.memo import Memo
from mpmon.diagnosis.ranks.starts import Starts
from mpmon.diagnosis.roles import HELPERS, Role, given_name, named_process
from mpmon.diagnosis.state import joins
from mpmon.diagnosis.state.history import History, ThreadKey
from mpmon.model import KnownChild, Process, Snapshot


class ProcessIndex:
    """The joins over one history and its last snapshot. Each is made on first use."""

    def __init__(self, history: History, snapshot: Snapshot, memory: Memo | None = None) -> None:
        """`memory` keeps the joins of tables that did not change since the previous round."""
        self.history = history
        self.snapshot = snapshot
        self.memory = memory or Memo()
        self.now = snapshot.taken_at
        self.processes: dict[int, Process] = {row.pid: row for row in snapshot.processes}
        self.roles: dict[int, Role] = history.roles

    def role(self, pid: int) -> Role:
        """The role of a process, also if it is not in this snapshot."""
        known = self.roles.get(pid)
        row = None if known else self.remembered.get(pid)
        if row is None:
            return known or Role(name="other", kind="other")
        if name := given_name(row):
            return named_process(name, row.pid)
        parent = self.roles.get(row.pid)
        return Role(name=f"child of {parent.name if parent else 'another process'}", kind="process", parent=row.pid)

    @cached_property
    def ranks(self) -> list[int]:
        """The living ranks; in a job restarted by torchrun, those of its last start, which wait for no others."""
        return [pid for pid in self._living_ranks if not self.is_of_earlier_start(pid)]

    @cached_property
    def _living_ranks(self) -> list[int]:
        return [pid for pid in self.memory.same("ranks", joins.ranks, self.roles) if self.is_alive(pid)]

    @cached_property
    def _starts(self) -> Starts:
        return Starts(self.processes[pid] for pid in self._living_ranks)

    def is_of_earlier_start(self, pid: int) -> bool:
        """A rank left over when torchrun restarted the job, perhaps on another machine."""
        return pid in self.processes and self._starts.is_earlier(self.processes[pid])

    @cached_property
    def stopped(self) -> tuple[int, ...]:
        """The living processes that a signal or a debugger has stopped."""
        return tuple(pid for pid, row in self.processes.items() if row.stopped and not row.ended)

    def is_alive(self, pid: int) -> bool:
        """In the job and not a zombie."""
        return pid in self.processes and not self.processes[pid].ended

    def may_act(self, pid: int) -> bool:
        """Alive, and not one of the helpers that only serve others, such as a resource tracker."""
        return self.is_alive(pid) and self.role(pid).kind not in HELPERS

    @cached_property
    def zombies(self) -> list[int]:
        """Processes of the job that ended and were not reaped by their parent."""
        return [pid for pid, process in self.processes.items() if process.ended]

    @cached_property
    def children(self) -> dict[int, list[int]]:
        """Pids by the kernel's parent."""
        found: dict[int, list[int]] = defaultdict(list)
        for process in self.snapshot.processes:
            found[process.ppid].append(process.pid)
        return found

    def starter(self, pid: int) -> int:
        """The process whose program started it: its parent, or the parent of the fork server that is its parent."""
        found = self.role(pid).parent
        return self.processes[pid].ppid if found is None else found

    def ancestors(self, pid: int) -> list[int]:
        """Those of the job, the parent first."""
        found, parent = [], self.processes[pid].ppid
        # In a damaged recording processes may be their own ancestors.
        while parent in self.processes and parent not in found:
            found.append(parent)
            parent = self.processes[parent].ppid
        return found

    @cached_property
    def clients(self) -> dict[int, list[int]]:
        """Pids by the process they work for (`Role.parent`)."""
        return self.memory.same("clients", joins.clients, self.roles)

    @cached_property
    def foreign(self) -> frozenset[int]:
        """Processes that are not Python, so they have no Python frames."""
        return frozenset(row.pid for row in self.snapshot.unknowns if row.not_python)

    @cached_property
    def remembered(self) -> dict[int, KnownChild]:
        """Children by their former pid, as their parents' programs remember them."""
        return self.memory.same("remembered", joins.by_child, self.snapshot.remembered)

    @cached_property
    def remembered_ends(self) -> dict[int, list[KnownChild]]:
        """Those of them that ended and were reaped, by parent."""
        return self.memory.same("remembered ends", joins.ends_by_parent, self.snapshot.remembered)

    def name(self, pid: int) -> str:
        """The name of a process in a sentence: its title, and its pid where the role of another one is called the same."""
        return self.full_name(pid) if self.role(pid).name in self._namesakes else self.title(pid)

    def title(self, pid: int) -> str:
        """The name of its role; where another one has the same, also which rank it works for."""
        role = self.role(pid)
        serves = role.name in self._namesakes and role.rank is not None and not role.is_rank
        return f"{role.name} of rank {role.rank}" if serves else role.name

    def full_name(self, pid: int) -> str:
        """The title of a process and its pid, whether another one is called the same or not."""
        return with_pid(self.title(pid), pid)

    @cached_property
    def _namesakes(self) -> frozenset[str]:
        """Names that several processes have."""
        counts = Counter(role.name for role in self.roles.values())
        return frozenset(name for name, count in counts.items() if count > 1)

    def names(self, who: Iterable[int | ThreadKey]) -> str:
        """The names of processes, or of those of threads, each process once: `rank 0, rank 1 and 3 more`."""
        pids = dict.fromkeys(one if isinstance(one, int) else one[0] for one in who)
        return several([self.name(pid) for pid in pids])

    def they(self, who: Iterable[ThreadKey], does: str) -> str:
        """The same with a verb: `rank 0 waits`, `rank 0 and rank 1 wait`."""
        keys = list(who)
        return f"{self.names(keys)} {verb(len({pid for pid, _ in keys}), does)}"
