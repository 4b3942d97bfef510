"""`mpmon PID`, `mpmon` and `mpmon --replay FILE ...`: arguments to a source and a sink."""

from __future__ import annotations

import os
import sys

from mpmon.commands import live, options, settings, show
from mpmon.errors import CannotTell, UsageError, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace


def run(arguments: list[str]) -> int:
    """Watch a live job or a recording."""
    given = settings.parse(options.program(), arguments)
    check(given)
    if given.replay is not None:
        return _replay(given)
    if ways(given):
        from mpmon.commands import nodes

        return nodes.watch(given)
    return live.watch(given, root_pid(given))


def check(given: Namespace) -> None:
    """
    Raises:
        UsageError: more than one thing to watch was given.
    """
    if given.replay is not None and given.pid is not None:
        raise UsageError("a PID and --replay do not go together.", "Give one of them.")
    if given.replay is not None and getattr(given, "on_hang", None) is not None:
        raise UsageError(
            "--on-hang and --replay do not go together.", "A recording shows the past, so it runs no command."
        )
    if found := ways(given):
        _check_nodes(given, found)
    if given.replay is not None and given.flight_recorder:
        raise UsageError(
            "--flight-recorder and --replay do not go together.",
            "A recording made with --flight-recorder already contains its numbers.",
        )
    if given.replay is not None and getattr(given, "nccl_ras", None):
        raise UsageError(
            "--nccl-ras and --replay do not go together.",
            "A recording made with --nccl-ras already contains the answers.",
        )


def ways(given: Namespace) -> list[str]:
    """The given options that select nodes."""
    return [f"--{name}" for name in ("slurm", "nodes", "pods") if getattr(given, name, None) is not None]


def _check_nodes(given: Namespace, found: list[str]) -> None:
    """
    Raises:
        UsageError: as `check`.
    """
    others = {"a PID": given.pid is not None, "--up": given.up, "--replay": given.replay is not None,
              "--flight-recorder": bool(given.flight_recorder)}  # fmt: skip
    both = [*found, *(name for name, is_given in others.items() if is_given)]
    if len(both) > 1:
        raise UsageError(f"{both[0]} and {both[1]} do not go together.", "Give one of them.")


def root_pid(given: Namespace) -> int:
    """The root process of the watched job: the given pid, or the one the user picks.

    Raises:
        MpmonError: there is none, or there are several and no terminal to ask on.
    """
    live.check_machine()
    if given.pid is not None:
        return _named_root(given)
    from mpmon import jobs

    found = jobs.running_jobs()
    if not sys.stdin.isatty() and len(found) > 1:
        for job in found:
            print(f"  {jobs.describe(job)}", file=sys.stderr)
        raise UsageError("several jobs run here.", "Give the PID of one of these.")
    if len(found) > 1 and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        from mpmon.tui.picker import pick

        index = pick([jobs.in_two_lines(job) for job in found])
        if index is None:
            raise jobs.not_chosen()
        return found[index].root_pid
    return jobs.choose(found, sys.stdin, sys.stderr).root_pid


def _named_root(given: Namespace) -> int:
    from mpmon.probes.standstill import persistently

    top = persistently(lambda: _top(given.pid))
    if given.up or top == given.pid:
        return top
    tell(f"pid {given.pid} is part of the job under pid {top}; --up shows it all.")
    given.about = f"part of the job under pid {top}: --up shows it all"
    return given.pid


def _top(pid: int) -> int:
    """
    Raises:
        MpmonError: there is no such process, or it is the kernel's, or mpmon itself.
    """
    from mpmon.probes import standstill
    from mpmon.probes.machine import Machine
    from mpmon.probes.tree import is_own

    machine = Machine()
    process = machine.process(pid)
    if process is None and pid not in standstill.silent:
        raise CannotTell(f"there is no process {pid}.", "List the running jobs with: mpmon")
    name = process.name if process else ""
    if process and process.is_kernels:
        raise UsageError(
            f"pid {pid} is {name}, a kernel thread: it is not part of a job.", "List the running jobs with: mpmon"
        )
    own = os.getpid()
    if is_own(pid, name, own):
        who = "mpmon itself" if pid == own else f"{name}, which mpmon itself starts"
        raise UsageError(f"pid {pid} is {who}: it is not part of a job.", "List the running jobs with: mpmon")
    return machine.top(pid)


def _replay(given: Namespace) -> int:
    from pathlib import Path

    from mpmon.session.watch import ReplayWatch

    if given.record is not None:
        raise UsageError("--record and --replay do not go together.", "Copy the file.")
    sink = show.sink(given)
    return show.show(given, ReplayWatch(*map(Path, given.replay), at_once=sink != "screen"), sink)
