"""`mpmon PID`, `mpmon` and `mpmon --replay FILE`: arguments to a source and a sink."""

from __future__ import annotations

import sys

from mpmon.commands import live, options, settings, show
from mpmon.errors import CannotTell, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace


def run(arguments: list[str]) -> int:
    """Watch a live job or a recording."""
    given = settings.parse(options.program(), arguments)
    check(given)
    if given.replay is not None:
        return _replay(given)
    return live.watch(given, root_pid(given))


def check(given: Namespace) -> None:
    """
    Raises:
        UsageError: what is to be watched cannot be two things.
    """
    if given.replay is not None and given.pid is not None:
        raise UsageError("a PID and --replay do not go together.", "Give one of them.")
    if given.replay is not None and given.flight_recorder:
        raise UsageError(
            "--flight-recorder and --replay do not go together.", "A recording made with --flight-recorder holds it."
        )


def root_pid(given: Namespace) -> int:
    """The process whose job is watched: the one that was given, or the one the user picks.

    Raises:
        MpmonError: there is none, or several and nobody to ask.
    """
    if given.pid is not None:
        return _named_root(given)
    from mpmon import jobs

    found = jobs.running_jobs()
    if not sys.stdin.isatty() and len(found) > 1:
        listed = "\n".join(f"  {jobs.describe(job)}" for job in found)
        raise UsageError(f"several jobs run here, give the PID of one:\n{listed}")
    return jobs.choose(found, sys.stdin, sys.stderr).root_pid


def _named_root(given: Namespace) -> int:
    from mpmon.probes.standstill import persistently

    top = persistently(lambda: _top(given.pid))
    if given.up or top == given.pid:
        return top
    print(f"mpmon: pid {given.pid} is a part of the job under pid {top}; --up shows it all.", file=sys.stderr)
    return given.pid


def _top(pid: int) -> int:
    from mpmon.probes import standstill
    from mpmon.probes.machine import Machine

    machine = Machine()
    if machine.process(pid) is None and pid not in standstill.silent:
        raise CannotTell(f"there is no process {pid}.", "List the running jobs with: mpmon")
    return machine.top(pid)


def _replay(given: Namespace) -> int:
    from pathlib import Path

    from mpmon.session.watch import ReplayWatch

    if given.record is not None:
        raise UsageError("--record and --replay do not go together.", "Copy the file.")
    sink = show.sink(given)
    return show.show(given, ReplayWatch(Path(given.replay), at_once=sink != "screen"), sink)
