"""Which ranks of a job are not observed: they run on other machines, or have ended without a trace.

The launcher of a machine's ranks tells each its number and how many there are (LOCAL_WORLD_SIZE and its like), so their
numbers are known even if one is missing. What other machines report of their ranks is in the table `elsewhere`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from mpmon.diagnosis.graph import External
from mpmon.diagnosis.humanize import ranges, several
from mpmon.diagnosis.ranks.addresses import is_this_machine
from mpmon.diagnosis.state.snapshot_index import SnapshotIndex
from mpmon.model import Elsewhere
from mpmon.numerals import numeral
from mpmon.spans import Spans, both, count, has, spans, union, without

_ON_A_MACHINE = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE")
"""How many ranks the same launcher started on one machine: torchrun, Open MPI."""


class World:
    """The ranks of one snapshot, by their numbers."""

    def __init__(self, tables: SnapshotIndex) -> None:
        self._tables = tables

    @cached_property
    def size(self) -> int:
        """How many ranks the job has, as far as any of them knows; 0 if none does."""
        return max((self._tables.role(pid).world_size or 0 for pid in self._tables.ranks), default=0)

    @cached_property
    def here(self) -> Spans:
        """The observed ranks that have a number."""
        numbers = (self._tables.role(pid).rank for pid in self._tables.ranks)
        return spans(number for number in numbers if number is not None)

    @cached_property
    def started_here(self) -> Spans | None:
        """The ranks started on the observed machines, as far as is known; `None` if some rank does not know."""
        blocks = [self._block(pid) for pid in self._tables.ranks]
        found = [block for block in blocks if block is not None]
        return union(found) if len(found) == len(blocks) else None

    def _block(self, pid: int) -> tuple[int, int] | None:
        """The numbers of the ranks that one launcher started on a machine: they are consecutive."""
        role, kept = self._tables.role(pid), self._environment(pid)
        size = next((number for name in _ON_A_MACHINE if (number := numeral(kept.get(name, "")))), None)
        if role.rank is None or role.local_rank is None or size is None:
            return None
        first = role.rank - role.local_rank
        return (first, first + size - 1)

    def _environment(self, pid: int) -> dict[str, str]:
        process = self._tables.processes.get(pid)
        return (process.environment if process else None) or {}

    @cached_property
    def elsewhere(self) -> Spans:
        """Ranks known to belong on other machines: not started on the observed ones, or with a rendezvous at another
        address.
        """
        if self.started_here is not None:
            return without(self.missing(), self.started_here)
        addresses = {self._environment(pid).get("MASTER_ADDR", "localhost") for pid in self._tables.ranks}
        return () if any(map(is_this_machine, addresses)) else self.missing()

    def missing(self, group: Iterable[int] = ()) -> Spans:
        """The unobserved ranks of a process group, or of the job, that no observed rank stands for; empty if an
        observed rank has no number.
        """
        if any(self._tables.role(pid).rank is None for pid in self._tables.ranks):
            return ()
        everybody = spans(group) or (((0, self.size - 1),) if self.size else ())
        stood_for = (
            row.ranks for row in self._tables.snapshot.elsewhere if row.like is not None and has(self.here, row.like)
        )
        return without(everybody, union(self.here, *stood_for))

    def awaited(self, group: Iterable[int], operation: str) -> tuple[External, ...]:
        """The unobserved ranks of a group that, as far as is known, are not in this operation either."""
        group = tuple(group)
        come = (row.ranks for row in self._tables.snapshot.elsewhere if _is_in(row, operation, spans(group)))
        return self.outside(without(self.missing(group), union(*come)))

    def weight(self, pid: int) -> int:
        """How many ranks of the job an observed rank stands for."""
        rank = self._tables.role(pid).rank
        rows = self._tables.snapshot.elsewhere
        return 1 + sum(count(row.ranks) for row in rows if row.like is not None and row.like == rank)

    def outside(self, ranks: Spans) -> tuple[External, ...]:
        """These ranks as targets, grouped by what they are known to do."""
        rows = [(row, found) for row in self._tables.snapshot.elsewhere if (found := both(ranks, row.ranks))]
        rest = without(ranks, union(*(found for _, found in rows)))
        told = [External(_words(found, row), of_job=True, moves=row.since is None) for row, found in rows]
        return (*told, *((External(f"{ranges(rest)}, which {self._where(rest)}", of_job=True),) if rest else ()))

    def _where(self, ranks: Spans) -> str:
        one = count(ranks) == 1
        silent = [row.host for row in self._tables.snapshot.nodes if row.problem]
        if silent:
            return f"{'runs' if one else 'run'} on hosts that do not answer ({several(silent)})"
        if self.started_here is None or both(ranks, self.started_here):
            return "does not run here" if one else "do not run here"
        return "runs on another machine" if one else "run on other machines"


def _is_in(row: Elsewhere, operation: str, group: Spans) -> bool:
    """All of them are in this operation, by their words and their group, if known."""
    return row.operation == operation and (not row.members or not group or row.members == group)


def _words(ranks: Spans, row: Elsewhere) -> str:
    return f"{ranges(ranks)}, {row.does}"
