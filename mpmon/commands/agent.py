"""`mpmon agent --stdio`: the mpmon process that mpmon starts on other machines (`mpmon.nodes.agent`); not for direct use."""

from __future__ import annotations

import argparse
import os
import sys

from mpmon.commands import live, options
from mpmon.errors import MpmonError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mpmon.nodes.wire import JobHere, Watch
    from mpmon.session.clock import LiveClock
    from mpmon.session.watch import LiveWatch


def run(arguments: list[str]) -> int:
    """Answer requests until the input ends."""
    given = parser().parse_args(arguments)
    if sys.stdin.isatty():
        raise UsageError("mpmon starts this itself.", "For one job on many nodes: mpmon --help")
    from mpmon.nodes.agent import Agent

    reads, writes = os.dup(0), os.dup(1)
    # No other output may come between two frames.
    os.dup2(2, 1)
    try:
        with live.extras(given) as found:

            def look(wish: Watch, root: int, clock: LiveClock) -> LiveWatch:
                return live.looks(_wanted(given, wish), root, found, "report" if wish.eager else "documents", clock)

            return Agent(reads, writes, jobs=lambda: _jobs(given), look=look, host=os.uname().nodename).run()
    except MpmonError as problem:
        _give_up(writes, problem)
        return problem.exit_status


def parser() -> argparse.ArgumentParser:
    """What this command takes."""
    made = options.Parser(prog="mpmon agent", description="Answer questions of another mpmon.", allow_abbrev=False)
    made.add_argument("--stdio", action="store_true", required=True, help="through the standard streams")
    made.add_argument("--slurm", metavar="JOB[.STEP]", help="the part of a Slurm job that runs here")
    made.add_argument("pid", nargs="?", type=options.pid, metavar="PID", help="the root of the job")
    made.set_defaults(record=None, flight_recorder=[], nccl_ras=None, on_hang=None)
    return made


def _jobs(given: argparse.Namespace) -> tuple[JobHere, ...]:
    from mpmon.nodes import here

    if given.pid is not None:
        return here.job_of(given.pid)
    if given.slurm is not None:
        job, _, step = given.slurm.partition(".")
        return here.slurm_steps(job, step)
    return here.jobs_here()


def _wanted(given: argparse.Namespace, wish: Watch) -> argparse.Namespace:
    """The options of a watch, as given to the front end."""
    stacks = wish.stacks if wish.stacks in options.STACKS else options.STACKS[0]
    return argparse.Namespace(
        **vars(given), interval=max(wish.interval, options.SHORTEST_S), stacks=stacks, seconds=wish.seconds
    )


def _give_up(writes: int, problem: MpmonError) -> None:
    from mpmon.nodes import wire

    said = wire.Bye(reason=str(problem), remedy=problem.remedy, exit_status=problem.exit_status)
    os.write(writes, b"".join(wire.frames(1, said)))
