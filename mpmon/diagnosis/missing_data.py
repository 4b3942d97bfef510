"""What could not be read, and what cannot be decided without it.

A rule names the tables it needs (`NEEDS`); if rows of one are missing for a process that matters, its cause is listed
as unchecked. Not found is not the same as not checked. A proof needs more: that nothing else could have acted, so every
open file of the job has to be known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from mpmon.diagnosis.findings import Unchecked
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import Blocked, Unknown

FACTS: dict[str, str] = {
    "stacks": "stacks",
    "blocked": "system calls",
    "handles": "open files",
    "semaphores": "semaphores",
    "locks": "locks between threads",
    "processes": "environment",
    "flight_records": "numbers of collectives",
}
"""Tables of a snapshot that rules need, with their names for people, the most telling first."""

_OF_ONE_THREAD = frozenset({"stacks", "blocked"})
_MOST_PIDS = 4


class Gap(msgspec.Struct, frozen=True, gc=False):
    """What is missing for one process."""

    facts: frozenset[str]
    """Names of tables."""
    reason: str
    """Why the most telling one is missing."""


def gaps(job: JobState) -> dict[int, Gap]:
    """By pid, for living processes other than mere helpers."""
    found = job.memory.same("gaps", _gaps, job.snapshot.unknowns, job.snapshot.blocked)
    return {
        pid: gap for pid, gap in found.items() if job.may_act(pid)
    }  # fmt: skip


def _gaps(unknowns: Sequence[Unknown], blocked: Sequence[Blocked]) -> dict[int, Gap]:
    reasons: dict[int, dict[str, str]] = {}
    for row in unknowns:
        if row.table in FACTS and not row.gone and not row.not_python:
            reasons.setdefault(row.pid, {})[row.table] = row.reason.removeprefix(f"pid {row.pid} ")
    for row in blocked:
        if _is_hidden(row):
            reasons.setdefault(row.pid, {}).setdefault("blocked", "the system call cannot be read")
    return {
        pid: Gap(frozenset(found), next(found[fact] for fact in FACTS if fact in found))
        for pid, found in sorted(reasons.items())
    }


def hides_call(job: JobState, key: ThreadKey) -> bool:
    """The thread sleeps, or is stopped, in a system call that may not be read."""
    blocked = job.blocked.get(key)
    return blocked is not None and _is_hidden(blocked)


def _is_hidden(row: Blocked) -> bool:
    return row.syscall is None and not row.args and row.state in "SDTt"


def unchecked(job: JobState, needs: Mapping[str, frozenset[str]]) -> Iterator[Unchecked]:
    """For each of these causes, with the tables it needs, why it cannot be decided. Processes with the same gap share a
    row.
    """
    alike: dict[Gap, list[int]] = {}
    for pid, gap in gaps(job).items():
        if _may_be_python(job, pid):
            alike.setdefault(gap, []).append(pid)
    for gap, pids in alike.items():
        reason = _words(gap, pids)
        yield from (Unchecked(cause=cause, reason=reason) for cause, facts in needs.items() if facts & gap.facts)


def rests_on_facts(job: JobState, pids: set[int]) -> bool:
    """Whether an argument about these processes leaves nothing to guess: their threads' waits could be read, and so
    could the open files of the whole job, through which any other process could act.
    """
    return not any(
        "handles" in gap.facts or (pid in pids and gap.facts & _OF_ONE_THREAD) for pid, gap in gaps(job).items()
    )


def _words(gap: Gap, pids: list[int]) -> str:
    facts = several([words for fact, words in FACTS.items() if fact in gap.facts], most=len(FACTS))
    names = several([str(pid) for pid in pids], most=_MOST_PIDS)
    each = "each " if len(pids) > 1 else "it "
    said_of_it = gap.reason.startswith(("belongs", "has ", "is "))
    return f"{facts} of pid {names}: {each if said_of_it else ''}{gap.reason}"


def _may_be_python(job: JobState, pid: int) -> bool:
    """Other people's programs are not our causes; an unreadable process is recognised as one by its command line."""
    if pid in job.foreign:
        return False
    process = job.processes[pid]
    program = (process.cmdline or (process.name,))[0].rpartition("/")[2]
    role = job.role(pid)
    other = role.kind == "subprocess" or role.starts
    return not other or "python" in program or job.is_forked(pid)
