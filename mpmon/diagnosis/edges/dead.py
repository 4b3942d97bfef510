"""Exited processes that others still wait for, as long as anything tells of them: a zombie, or the program that started them."""

from __future__ import annotations

import signal
from collections.abc import Collection

import msgspec

from mpmon.diagnosis import libraries
from mpmon.diagnosis.edges.deaths import death, returncode_words
from mpmon.diagnosis.graph import Exited, External, WaitEdge
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.thresholds import NEXT_ROUND_S
from mpmon.model import KnownChild


def dead_relatives(job: JobState, pid: int, *, certain: bool) -> list[Exited]:
    """Children and siblings that ended and were not reaped: they may have been the other end."""
    parent = job.starter(pid)
    return [
        Exited(other, death(job, other).how, certain, job.processes[other].exit_code)
        for other in job.zombies
        if job.starter(other) in (pid, parent) and other != pid
    ]


def ended_siblings(job: JobState, pid: int) -> list[Exited]:
    """Those that the same program started and that ended, reaped or not; of the latter those that ran the same program."""
    parent, name = job.starter(pid), job.processes[pid].name
    zombies = [
        gone for gone in dead_relatives(job, pid, certain=True)
        if job.starter(gone.pid) == parent and job.processes[gone.pid].name == name
    ]  # fmt: skip
    return [*zombies, *map(_as_gone, reaped(job, parent))]


def dead_ranks(job: JobState, pid: int, size: int | None, alive: int) -> list[Exited]:
    """The ended processes that were ranks: relatives, else those that failed of the children of who started other ranks, such as
    the agents of several nodes, and that have the same name; none if as many ranks live as there are, so that whoever ended
    was none of them.
    """
    if size is not None and alive >= size:
        return []
    ranks = [job.processes[rank] for rank in job.ranks if size is not None]
    starters, names = {job.starter(rank.pid) for rank in ranks}, {rank.name for rank in ranks}
    bad = (job.processes[other] for other in job.zombies if job.processes[other].exit_code)
    return dead_relatives(job, pid, certain=True) or [
        Exited(row.pid, death(job, row.pid).how, certain=True, status=row.exit_code)
        for row in bad if row.name in names and job.starter(row.pid) in starters
    ]  # fmt: skip


_TOLD = (signal.SIGTERM, signal.SIGINT)
"""Signals that ask a process to end."""


def crashed(job: JobState, pid: int) -> list[Exited]:
    """Children and siblings that failed, reaped ones only if there are no others."""
    if not job.zombies and not job.remembered_ends:
        return []
    found = [gone for gone in dead_relatives(job, pid, certain=False) if gone.status]
    return found or [gone for gone in remembered_dead(job, pid) if gone.status]


def crashed_relatives(job: JobState, pid: int) -> list[int]:
    """The pids of those that failed, but not because they were asked to end."""
    return [gone.pid for gone in failed(job, pid)]


def killed_relatives(job: JobState, pid: int) -> list[int]:
    """Those of these that were killed by a signal."""
    return [gone.pid for gone in failed(job, pid) if (gone.status or 0) & 0x7F]


def failed(job: JobState, pid: int) -> list[Exited]:
    """As `crashed`, without those that were asked to end, by SIGTERM or SIGINT."""
    for rows in (dead_relatives(job, pid, certain=False), remembered_dead(job, pid)):
        if found := [gone for gone in rows if gone.status and gone.status & 0x7F not in _TOLD]:
            return found
    return []


def with_crashed(job: JobState, key: ThreadKey, edge: WaitEdge) -> WaitEdge:
    """The same edge, with crashed relatives added: if its targets are only candidates, the crashed process may be the one
    that had to act.
    """
    if edge.every or edge.holder_known or (edge.exact and len(edge.targets) == 1):
        return edge
    if edge.targets and all(isinstance(target, External) for target in edge.targets):
        return edge
    gone = [gone for gone in crashed(job, key[0]) if not _was_terminated(job, gone)]
    if not gone or any(isinstance(target, Exited) for target in edge.targets):
        return edge
    return msgspec.structs.replace(edge, targets=(*edge.targets, *gone))


def _was_terminated(job: JobState, gone: Exited) -> bool:
    """A worker of a pool that was told to end, as `Pool.terminate` does with all: it had nothing more to do."""
    names = [row.given_name for row in libraries.WORKERS if row.given_name]
    return (gone.status or 0) & 0x7F in _TOLD and any(name in job.role(gone.pid).name for name in names)


def lost_relatives(job: JobState, pid: int, *, certain: bool) -> list[Exited]:
    """As `dead_relatives`; if there are none, relatives that were reaped but are remembered by their parent's program."""
    if not job.zombies and not job.remembered_ends:
        return []
    found = dead_relatives(job, pid, certain=certain)
    return found or [msgspec.structs.replace(gone, certain=certain) for gone in remembered_dead(job, pid)]


def remembered_dead(job: JobState, pid: int) -> list[Exited]:
    """Children and siblings that were reaped, but whose process objects the parent's program still has; if some of them
    crashed, only those.
    """
    rows = remembered(job, pid)
    crashed = [row for row in rows if row.returncode]
    return [_as_gone(row) for row in crashed or rows]


def _as_gone(row: KnownChild) -> Exited:
    code = row.returncode or 0
    return Exited(row.child, returncode_words(code), certain=False, status=-code if code < 0 else code << 8)


def remembered(job: JobState, pid: int) -> list[KnownChild]:
    """Children and siblings that were reaped."""
    return [*reaped(job, pid), *reaped(job, job.starter(pid))]


def reaped(job: JobState, pid: int) -> list[KnownChild]:
    """Children that a process has reaped, and whose process objects it still has."""
    return [row for row in job.remembered_ends.get(pid, ()) if row.child not in job.processes]


def gone_children(job: JobState, parent: int, kinds: Collection[str]) -> list[Exited]:
    """Children of these kinds that ended: zombies, else children that mpmon saw end, if their library names its workers."""
    found = [
        Exited(pid, death(job, pid).how, status=job.processes[pid].exit_code)
        for pid in job.children.get(parent, ())
        if not job.is_alive(pid) and job.role(pid).kind in (*kinds, "process", "subprocess")
    ]
    names = {row.process_name for row in libraries.WORKERS if row.kind in kinds and row.process_name}
    if found or not names:
        return found
    working = [job.processes[pid].start_time for pid in job.clients.get(parent, ()) if job.role(pid).kind in kinds]
    seen = [row for row in job.snapshot.exits if row.process.ppid == parent and row.process.name in names]
    # Workers of an earlier epoch ended before these started.
    return [
        Exited(row.pid, death(job, row.pid).how, status=row.process.exit_code) for row in seen
        if not working or row.seen_at > min(working) + NEXT_ROUND_S
    ]  # fmt: skip
