"""Sequence numbers of collectives, joined with the ranks observed: exactly who is behind whom.

Every rank of a process group counts the group's collectives. A rank that waits in number 6 waits for each member whose
last number is smaller: the collective needs a call that this member has not made. If all ranks have reached the same
number with a different operation, size or type, the numbers show which rank diverged.

A record counts only if it was read after its rank had come to rest, and is dropped once the rank has been seen to run
since.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import cached_property
from math import prod

import msgspec

from mpmon.diagnosis.graph import External, Target
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.libraries.torch import BACKWARD
from mpmon.diagnosis.libraries.torch_distributed import POINT_TO_POINT
from mpmon.diagnosis.progress.motion import same_since
from mpmon.diagnosis.stacks.waits import WaitState
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.snapshot_index import SnapshotIndex
from mpmon.model import Collective, FlightRecord, GroupProgress

DEFAULT_GROUP = "default_pg"
"""Torch's description of the group of all ranks."""

_AUTOGRAD = "pt_autograd"
"""Torch's names for the threads of a backward pass, from which gradients are reduced."""

_ONE_SIDED = frozenset({"broadcast", "reduce", "gather", "scatter"})
"""Operations with a root: a rank may wait only for the root rather than for every rank."""

_SAME_SIZES = frozenset({"all_reduce", "allreduce", "broadcast", "reduce", "_all_gather_base", "_reduce_scatter_base"})
"""Operations that need inputs of the same size and type on every rank (`Op.match` of torch's
flight_recorder/components).
"""

_GRADIENTS = frozenset({BACKWARD, "wait", "wait_tensor", "DistributedDataParallel", "_sync_buffers"})
"""Calls in which a rank may wait for any kind of operation."""


class Behind(msgspec.Struct, frozen=True):
    """A rank waits in a collective that others have not entered."""

    targets: tuple[Target, ...]
    """The ranks that are behind."""
    words: str
    """`rank 1 has enqueued collective 5 of group 0 (broadcast), rank 0 and rank 2 wait in 6 (all_reduce)`."""
    exact: bool


class Mismatch(msgspec.Struct, frozen=True):
    """All ranks have reached the same number, but not with the same operation, size or type."""

    by_call: dict[str, tuple[int, ...]]
    """Pids by their call: `all_reduce of 4 x Float`."""
    words: tuple[str, ...]
    exact: bool

    def others(self, pid: int) -> tuple[int, ...]:
        """The ranks that called something else than this one."""
        return tuple(other for pids in self.by_call.values() if pid not in pids for other in pids)

    def odd(self) -> tuple[int, ...]:
        """The ranks that called something else than most; empty on a tie."""
        ranked = sorted(self.by_call.values(), key=len)
        return ranked[0] if len(ranked) == 2 and len(ranked[0]) < len(ranked[1]) else ()


class Numbers:
    """The Flight Recorders' records, by the pids of the ranks."""

    def __init__(self, tables: SnapshotIndex, wait_state: Callable[[ThreadKey], WaitState]) -> None:
        """`wait_state` tells what a thread waits in."""
        self._tables = tables
        self._wait_state = wait_state
        self._lags: dict[int, Behind | None] = {}

    @cached_property
    def _pids(self) -> dict[int, int]:
        """The process of each rank; a rank number that two processes claim belongs to neither."""
        found: dict[int, list[int]] = defaultdict(list)
        for pid in self._tables.ranks:
            if (rank := self._tables.role(pid).rank) is not None:
                found[rank].append(pid)
        return {rank: pids[0] for rank, pids in found.items() if len(pids) == 1}

    @cached_property
    def _records(self) -> dict[int, tuple[FlightRecord, bool]]:
        """The records that still hold, by rank, and whether that is certain."""
        found: dict[int, tuple[FlightRecord, bool]] = {}
        for record in self._tables.snapshot.flight_records:
            rank = self._rank(record.rank, record.pid)
            sure = self._holds(rank, record)
            if rank is not None and sure is not None:
                found.setdefault(rank, (record, sure))
        return found

    @cached_property
    def _calls(self) -> dict[tuple[int, str, str, int], Collective]:
        rows = self._tables.snapshot.collectives
        ranked = ((self._rank(row.rank, row.pid), row) for row in rows)
        return {(rank, row.backend, row.group, row.number): row for rank, row in ranked if rank is not None}

    def _rank(self, rank: int | None, pid: int | None) -> int | None:
        return rank if rank is not None else self._tables.role(pid).rank if pid in self._pids.values() and pid else None

    def _holds(self, rank: int | None, record: FlightRecord) -> bool | None:
        """True: read while the rank stood still. False: it was not seen to run since. `None`: it has run since."""
        pid = self._pids.get(-1 if rank is None else rank)
        if pid is None:
            return False
        past = self._tables.thread_history((pid, pid))
        if past is None or record.read_at < self._tables.processes[pid].start_time:
            return None
        if record.read_at >= same_since(past):
            return record.read_at >= self._ran_at.get(pid, 0.0)
        return False if past.changes == 0 and past.ran_at >= past.first_at else None

    @cached_property
    def _ran_at(self) -> dict[int, float]:
        """When a thread of a process that may enqueue collectives last ran: Python's threads and autograd's."""
        found: dict[int, float] = {}
        for (pid, tid), past in self._tables.history.pasts.items():
            if (pid, tid) in self._tables.stacks or past.thread.name.startswith(_AUTOGRAD):
                found[pid] = max(found.get(pid, 0.0), past.ran_at)
        return found

    # Who is behind

    def lag(self, pid: int) -> Behind | None:
        """The ranks that are behind the collective this rank waits in; `None` if there are none, or if it is unknown."""
        if pid not in self._lags:
            self._lags[pid] = self._find_lag(pid) if self._tables.snapshot.flight_records else None
        return self._lags[pid]

    def _find_lag(self, pid: int) -> Behind | None:
        found = self._waits_in(pid)
        if found is None:
            return None
        group, number, sure = found
        counts = self._counts(group)
        if counts is None:
            return None
        behind = {rank: progress for rank, progress in counts.items() if progress.enqueued < number}
        if not behind:
            return None
        operation = self._operation(pid, group, number)
        exact = sure and operation not in _ONE_SIDED and all(
            progress.counted and rank in self._pids and self._records[rank][1] for rank, progress in behind.items()
        )  # fmt: skip
        return Behind(tuple(map(self._target, behind)), self._lag_words(group, number, operation, behind), exact)

    def _waits_in(self, pid: int) -> tuple[GroupProgress, int, bool] | None:
        """Group and number of the only collective this rank has not finished, and whether it certainly waits in that
        one.
        """
        rank = self._tables.role(pid).rank
        called = self._wait_state((pid, pid)).operation
        if rank is None or self._pids.get(rank) != pid or rank not in self._records or called in POINT_TO_POINT:
            # gloo does not record these, so the numbers say nothing about them.
            return None
        record, sure = self._records[rank]
        waiting = [(group, group.waits_in) for group in record.groups if group.waits_in is not None]
        if len(waiting) != 1:
            return None
        group, number = waiting[0]
        operation = self._operation(pid, group, number)
        fits = called in _GRADIENTS or (bool(called) and _stem(operation) == _stem(called))
        return group, number, sure and fits

    def _counts(self, group: GroupProgress) -> dict[int, GroupProgress] | None:
        """The progress of each member of a group; `None` unless it is known for all."""
        members = self._members(group)
        found: dict[int, GroupProgress] = {}
        for rank in members:
            progress = self._progress(rank, group) if rank in self._records else None
            if progress is None:
                return None
            found[rank] = progress
        return found

    def _members(self, group: GroupProgress) -> list[int]:
        """The ranks of a group; if nothing tells its members, those that have used it."""
        if group.ranks is not None:
            return list(group.ranks)
        if group.description == DEFAULT_GROUP:
            sizes = [role.world_size for role in self._tables.roles.values() if role.world_size]
            return sorted({*range(max(sizes, default=0)), *self._pids})
        return sorted(rank for rank, (record, _) in self._records.items() if _same(record, group))

    def _progress(self, rank: int, group: GroupProgress) -> GroupProgress | None:
        record = self._records[rank][0]
        if same := _same(record, group):
            return same
        return None if record.unnamed else msgspec.structs.replace(group, enqueued=0, waits_in=None, counted=True)

    def _target(self, rank: int) -> Target:
        pid = self._pids.get(rank)
        return External(f"rank {rank}, which does not run here", of_job=True) if pid is None else (pid, pid)

    def _operation(self, pid: int, group: GroupProgress, number: int) -> str:
        call = self._calls.get((self._tables.role(pid).rank or 0, group.backend, group.name, number))
        return call.operation if call else ""

    def _lag_words(self, group: GroupProgress, number: int, operation: str, behind: dict[int, GroupProgress]) -> str:
        waiting = [
            f"rank {rank}" for rank, (record, _) in sorted(self._records.items())
            if (same := _same(record, group)) and same.waits_in == number
        ]  # fmt: skip
        last = [
            f"rank {rank} has enqueued {self._number(rank, group, progress.enqueued)}"
            for rank, progress in sorted(behind.items())
        ]
        verb = "wait" if len(waiting) > 1 else "waits"
        return (
            f"{several(last)} of group {group.name}, {several(waiting)} {verb} in {number} ({operation or 'unknown'})"
        )

    def _number(self, rank: int, group: GroupProgress, number: int) -> str:
        call = self._calls.get((rank, group.backend, group.name, number))
        return f"collective {number}{f' ({call.operation})' if call else ''}" if number else "no collective"

    # Who diverged

    def clash(self, pid: int) -> Mismatch | None:
        """Each rank's call at the sequence number this one waits in, if all have reached that number and the calls differ."""
        found = self._waits_in(pid) if self._tables.snapshot.flight_records else None
        if found is None:
            return None
        group, number, sure = found
        calls = {
            rank: call for rank in self._members(group)
            if rank in self._pids and (call := self._calls.get((rank, group.backend, group.name, number)))
        }  # fmt: skip
        if len(calls) < len(self._members(group)):
            return None
        told = sure and all(rank in self._records and self._records[rank][1] for rank in calls)
        by_call: dict[str, list[int]] = defaultdict(list)
        sized = len({call.operation for call in calls.values()}) == 1
        for rank, call in sorted(calls.items()):
            by_call[_call(call, sized=sized)].append(rank)
        if len(by_call) < 2:
            return None
        words = [
            f"{several([f'rank {rank}' for rank in ranks])} called {call} as collective {number} of group {group.name}"
            for call, ranks in by_call.items()
        ]
        return Mismatch(
            {call: tuple(self._pids[rank] for rank in ranks) for call, ranks in by_call.items()}, tuple(words), told
        )  # fmt: skip


def _stem(operation: str) -> str:
    """`all` of `all_reduce` and of `_all_gather_base`: the backends name operations otherwise than torch's functions."""
    return operation.strip("_").split("_")[0]


def _same(record: FlightRecord, group: GroupProgress) -> GroupProgress | None:
    """The same group in another rank's record; a record without operations does not tell the group's backend."""
    rows = [row for row in record.groups if row.name == group.name and row.backend in (group.backend, "")]
    return max(rows, key=lambda row: row.backend, default=None)


def _call(call: Collective, *, sized: bool) -> str:
    """The call, with the amount of data if that has to be the same on every rank.

    Shapes may differ as long as the number of elements does not.
    """
    if not sized or call.operation not in _SAME_SIZES or not call.sizes:
        return call.operation
    amounts = [str(prod(shape)) for shape in call.sizes]
    return f"{call.operation} of {several(amounts)} x {several(sorted(set(call.dtypes)))}"
