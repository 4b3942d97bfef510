"""A process was stopped by a signal, or is held by a debugger, and others wait for it.

What it looks like: state T (stopped) or t (traced) in `ps`; nothing of the process moves.
Why: SIGSTOP from a job control or memory guard, Ctrl-Z, a debugger or profiler that attached and did not let go.
What to do: `kill -CONT PID`; for a traced process end the tracer (its pid is TracerPid in /proc/PID/status).
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.knot import Claim, Knot
from mpmon.diagnosis.waits import Wait

CAUSE = "stopped"
NEEDS = frozenset[str]()
"""The state of a process may be read by anybody."""


def claim(knot: Knot) -> Claim | None:
    """The root is stopped."""
    if knot.standing().kind is not Wait.STOPPED or knot.root is None:
        return None
    pid = knot.root[0]
    process = knot.case.processes[pid]
    if process.state == "t" and process.tracer_pid:
        how, advice = (
            f"held by the debugger with pid {process.tracer_pid}",
            f"Detach it, or end it: kill {process.tracer_pid}",
        )
    else:
        how, advice = "stopped by a signal (SIGSTOP or job control)", f"Let it go on: kill -CONT {pid}"
    return Claim(
        summary=f"{knot.role()} (pid {pid}) is {how}{knot.at()}",
        evidence=(f"/proc/{pid}/stat: state {process.state}",),
        advice=(advice, "Find out who stopped it: a memory guard, a scheduler, Ctrl-Z in its terminal."),
        certainty=Certainty.PROVED,
    )
