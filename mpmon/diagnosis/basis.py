"""What a hang rests on: the threads that a second reader of stacks is asked about before it is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mpmon.diagnosis.findings import Diagnosis, Finding, Verdict
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.words import several
from mpmon.model import BOTH, Snapshot, Stack

MOST_PROCESSES = 12
"""Processes about which a second reader is asked."""


def basis(diagnosis: Diagnosis, snapshot: Snapshot) -> dict[int, set[int]]:
    """The threads, by process, whose stacks the findings of a hang rest on; nothing where there is no hang."""
    if diagnosis.verdict is not Verdict.HUNG:
        return {}
    named = {(row.pid, row.thread_name): row.tid for row in snapshot.stacks}
    found: dict[int, set[int]] = {}
    for pid, tid in (key for finding in diagnosis.findings for key in _threads(finding, named)):
        if pid in found or len(found) < MOST_PROCESSES:
            found.setdefault(pid, set()).add(tid)
    return found


def _threads(finding: Finding, named: Mapping[tuple[int, str], int]) -> Iterable[ThreadKey]:
    """Suspects first."""
    yield from ((row.pid, row.tid or row.pid) for row in finding.suspects if not row.dead)
    yield from ((link.pid, named.get((link.pid, link.thread or ""), link.pid)) for link in finding.chain)


def agreement(finding: Finding, stacks: Mapping[ThreadKey, Stack]) -> tuple[str, ...]:
    """What is said of a finding whose stacks two readers have read alike."""
    named = {(row.pid, row.thread_name): row.tid for row in stacks.values()}
    rows = [stacks[key] for key in dict.fromkeys(_threads(finding, named)) if key in stacks]
    if not rows or any(row.reader != BOTH for row in rows):
        return ()
    pids = several([str(pid) for pid in dict.fromkeys(row.pid for row in rows)])
    return (f"mpmon and py-spy read the same calls and lines of pid {pids}",)
