"""The threads a hang rests on: a second stack reader reads them before the hang is reported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mpmon.diagnosis.findings import Diagnosis, Finding, Verdict
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.stacks.native_waits import FOR_THREADS
from mpmon.diagnosis.stacks.natives import native_fact
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.model import BOTH, Snapshot, Stack

MOST_PROCESSES = 12
"""Processes that the second reader reads."""


def basis(diagnosis: Diagnosis, snapshot: Snapshot) -> dict[int, set[int]]:
    """The threads, by process, whose stacks the findings of a hang rest on, and those that hide whether there is a
    hang.
    """
    found: dict[int, set[int]] = {}
    for pid, tid in (*_of_findings(diagnosis, snapshot), *diagnosis.hidden):
        if pid in found or len(found) < MOST_PROCESSES:
            found.setdefault(pid, set()).add(tid)
    for pid in _with_native_threads(snapshot, found):
        found[pid].update(row.tid for row in snapshot.threads if row.pid == pid)
    return found


def _of_findings(diagnosis: Diagnosis, snapshot: Snapshot) -> Iterator[ThreadKey]:
    if diagnosis.verdict is not Verdict.HUNG:
        return
    # Named as in `SnapshotIndex.thread_name`.
    named = {(row.pid, f"thread {row.tid}"): row.tid for row in snapshot.threads}
    named |= {(row.pid, row.thread_name): row.tid for row in snapshot.stacks}
    for finding in diagnosis.findings:
        yield from _threads(finding, named)


def _with_native_threads(snapshot: Snapshot, found: Mapping[int, set[int]]) -> set[int]:
    """Processes in which one of these threads waits in C for other native threads, or for something unknown: their
    native threads have to be read too.
    """
    rows = (row for row in snapshot.native_stacks if row.tid in found.get(row.pid, ()) and not row.is_sample)
    facts = ((row.pid, native_fact(row)) for row in rows)
    return {pid for pid, fact in facts if fact and (fact.wait is None or fact.wait.sort in FOR_THREADS)}


def _threads(finding: Finding, named: Mapping[tuple[int, str], int]) -> Iterable[ThreadKey]:
    """Suspects first."""
    yield from ((row.pid, row.tid or row.pid) for row in finding.suspects if not row.dead)
    yield from ((link.pid, named.get((link.pid, link.thread or ""), link.pid)) for link in finding.chain)


def agreement(finding: Finding, stacks: Mapping[ThreadKey, Stack]) -> tuple[str, ...]:
    """The evidence line for a finding whose stacks both readers read alike."""
    named = {(row.pid, row.thread_name): row.tid for row in stacks.values()}
    rows = [stacks[key] for key in dict.fromkeys(_threads(finding, named)) if key in stacks]
    if not rows or any(row.reader != BOTH for row in rows):
        return ()
    pids = several([str(pid) for pid in dict.fromkeys(row.pid for row in rows)])
    return (f"mpmon and py-spy read the same calls and lines of pid {pids}",)
