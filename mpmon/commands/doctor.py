"""`mpmon doctor [PID]`: what can be read here, what cannot, why, and the remedy; with `--gpu`, which assumptions about the
GPU hold.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Generator
from typing import BinaryIO

from mpmon.commands import options
from mpmon.errors import UsageError


def run(arguments: list[str]) -> int:
    """Print the checks; the exit status is that of the worst."""
    given = parser().parse_args(arguments)
    if given.gpu:
        if given.pid is not None:
            raise UsageError("--gpu checks the machine and takes no PID.", "Run mpmon doctor PID by itself.")
        return _confirm(given.report, yes=given.yes)
    if given.report or given.yes:
        raise UsageError("--report and --yes require --gpu.", "Run mpmon doctor --gpu.")
    from mpmon import doctor
    from mpmon.commands import live

    live.check_machine()

    checks = doctor.checkup(given.pid)
    print(doctor.render(checks))
    return doctor.exit_status(checks)


def _confirm(path: str | None, *, yes: bool) -> int:
    """Print the result of each GPU case as it becomes known."""
    from mpmon.doctor import gpu
    from mpmon.doctor.gpu.case import World

    confirming = gpu.Confirming(World())
    with _new_file(path) as file:
        print(confirming.machine, flush=True)
        print(confirming.torch, flush=True)
        for result in confirming.run(lambda: yes or _agrees(confirming.question())):
            print(gpu.line(result), flush=True)
        print(confirming.summary)
        if file:
            file.write(gpu.encode(confirming.report()))
    return confirming.exit_status


def _agrees(question: str) -> bool:
    """Whether the user allows it; without a terminal to ask on, print what was skipped."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print(f"{question} There is no terminal to ask on: skipped without --yes.", flush=True)
        return False
    try:
        return input(f"{question} Continue? [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        return False


@contextlib.contextmanager
def _new_file(path: str | None) -> Generator[BinaryIO | None]:
    """A new file, created before the cases run for minutes, and removed again if they fail."""
    if path is None:
        yield None
        return
    try:
        file = open(path, "xb")  # noqa: SIM115  closed below
    except FileExistsError as problem:
        remedy = "Give a new name to --report; mpmon overwrites nothing."
        raise UsageError(f"{path} exists already.", remedy) from problem
    except OSError as problem:
        raise UsageError(f"cannot write {path}: {problem.strerror}.", "Give a path you may write to.") from problem
    try:
        with file:
            yield file
    except BaseException:
        os.unlink(path)
        raise


def parser() -> argparse.ArgumentParser:
    """What this command takes."""
    made = options.Parser(
        prog="mpmon doctor", allow_abbrev=False,
        description="What can be read here, what cannot, why, and the remedy.",
    )  # fmt: skip
    made.add_argument("pid", nargs="?", type=options.pid, metavar="PID", help="also check this process")
    made.add_argument(
        "--gpu", action="store_true", help="check mpmon's assumptions about the GPU, with small test processes"
    )
    made.add_argument("--report", metavar="FILE", help="with --gpu: write the results to a new file, without names")
    made.add_argument("--yes", action="store_true", help="with --gpu: allocate GPU memory without asking")
    return made
