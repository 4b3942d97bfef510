"""A process was stopped by a signal, or is held by a debugger, and others wait for it.

What it looks like: state T (stopped) or t (traced) in `ps`; no thread of the process runs.
Why: SIGSTOP from job control or a memory guard, Ctrl-Z, a debugger or profiler that attached and did not detach.
What to do: first find out who stopped it: they may have had a reason, and may stop it again. Then `kill -CONT PID`; for a
traced process, end the tracer (its pid is TracerPid in /proc/PID/status).
"""

from __future__ import annotations

from typing import NamedTuple

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.responsibility.tasks import traced
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet

CAUSE = "stopped"
NEEDS = frozenset[str]()
"""Any user may read the state of a process."""


def match(stuck: StuckSet) -> Match | None:
    """The root is stopped, or holds a stopped thread with ptrace(2)."""
    held = traced(stuck) or (stuck.root if stuck.wait_state().kind is Wait.STOPPED else None)
    if held is None:
        return None
    pid, how = held[0], _how(stuck, held)
    return Match(
        summary=f"{stuck.job.full_name(pid)} is {how.words}",
        evidence=(f"/proc/{pid}/stat: state {stuck.job.processes[pid].state}", *how.evidence),
        advice=how.advice,
        certainty=Certainty.PROVED,
    )


class _How(NamedTuple):
    words: str
    advice: tuple[str, ...]
    evidence: tuple[str, ...] = ()


def _how(stuck: StuckSet, held: ThreadKey) -> _How:
    """Who stopped it, and what to do."""
    pid, process = held[0], stuck.job.processes[held[0]]
    if held != stuck.root:
        by = stuck.role()
        advice = f"Look at what {by} does: it has to detach."
        return _How(f"held by {by} with ptrace(2){stuck.at()}", (advice,), stuck.edge_evidence())
    if process.state == "t" and process.tracer_pid:
        advice = f"Detach it, or end it: kill {process.tracer_pid}"
        return _How(f"held by the debugger with pid {process.tracer_pid}{stuck.at()}", (_WHO_TRACES, advice))
    how = f"stopped by a signal (SIGSTOP or job control){stuck.at()}"
    return _How(how, (_WHO_STOPPED, f"Then continue it: kill -CONT {pid}"))


_WHO_TRACES = "First find out who attached the debugger: somebody may be at work with it."
_WHO_STOPPED = (
    "First find out who stopped it (a memory guard, a suspended Slurm job, Ctrl-Z): they may have had a reason, and may stop it "
    "again."
)
