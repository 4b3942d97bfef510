"""A process was stopped by a signal, or is held by a debugger, and others wait for it.

What it looks like: state T (stopped) or t (traced) in `ps`; no thread of the process runs.
Why: SIGSTOP from job control or a memory guard, Ctrl-Z, a debugger or profiler that attached and did not detach.
What to do: `kill -CONT PID`; for a traced process, end the tracer (its pid is TracerPid in /proc/PID/status).
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.stuck_set import Match, StuckSet
from mpmon.diagnosis.waits import Wait

CAUSE = "stopped"
NEEDS = frozenset[str]()
"""The state of a process may be read by anybody."""


def match(stuck: StuckSet) -> Match | None:
    """The root is stopped."""
    if stuck.wait_state().kind is not Wait.STOPPED or stuck.root is None:
        return None
    pid = stuck.root[0]
    process = stuck.job.processes[pid]
    if process.state == "t" and process.tracer_pid:
        how, advice = (
            f"held by the debugger with pid {process.tracer_pid}",
            f"Detach it, or end it: kill {process.tracer_pid}",
        )
    else:
        how, advice = "stopped by a signal (SIGSTOP or job control)", f"Continue it: kill -CONT {pid}"
    return Match(
        summary=f"{stuck.role()} (pid {pid}) is {how}{stuck.at()}",
        evidence=(f"/proc/{pid}/stat: state {process.state}",),
        advice=(advice, "Find out who stopped it: a memory guard, a scheduler, Ctrl-Z in its terminal."),
        certainty=Certainty.PROVED,
    )
