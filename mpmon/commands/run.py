"""`mpmon run -- CMD`: a job of the user's with the queue shim on, watched while it runs; its exit status is mpmon's.

On a terminal the screen is shown and the output of CMD goes to a file, since they cannot share the terminal; after leaving
the screen, the user sees the rest of the output until CMD ends. Otherwise CMD has the standard streams to itself, and mpmon
writes only when a hang begins or ends, to standard error.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys

from mpmon.commands import options, settings
from mpmon.errors import MpmonError, UsageError, in_words, tell
from mpmon.probes.own import Reader, Silent, asked, served

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from io import RawIOBase
    from typing import IO

    from mpmon.commands.live import Extras
    from mpmon.launch import Launched

FOLLOW_S = 0.2
"""Interval at which the file with the output of CMD is read."""

PART = 1 << 16
"""Bytes per read of that file."""


def run(arguments: list[str]) -> int:
    """Run a command to its end.

    Raises:
        CannotStart: it does not begin.
    """
    given = settings.parse(parser(), arguments)
    command = given.command[1:] if given.command[:1] == ["--"] else given.command
    if not command:
        raise UsageError("there is no command to run.", "For example: mpmon run -- python train.py")
    if not command[0]:
        raise UsageError("the name of the program to run is empty.", "For example: mpmon run -- python train.py")
    from mpmon.commands import live

    run_it = _headless if given.headless or not _has_terminal() else _on_screen
    with live.extras(given) as found:
        status = run_it(given, command, found)
    _clean()
    return status


def parser() -> argparse.ArgumentParser:
    """What this command takes."""
    made = options.Parser(
        prog="mpmon run", allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="mpmon run [options] -- CMD ...",
        description="Start CMD with the queue shim on and watch it; exits with the status of CMD.",
    )  # fmt: skip
    made.add_argument(
        "--headless", action="store_true", help="no screen: one line on standard error when a hang begins or ends"
    )
    made.add_argument("--output", metavar="FILE", help="file for the output of CMD while the screen is shown")
    made.add_argument("--dump-stacks", action="store_true",
                      help="where py-spy may not read the job, send it SIGURG so that it writes its own stacks")  # fmt: skip
    options.add_recording(made)
    options.add_alarm(made)
    options.add_settings(made)
    made.add_argument("command", nargs=argparse.REMAINDER, metavar="CMD", help="the job")
    made.set_defaults(once=False, json=False, plain=False)
    return made


def _has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _environment(given: Namespace) -> dict[str, str]:
    from mpmon import launch

    try:
        return launch.environment(os.environ, dump_stacks=given.dump_stacks)
    except (OSError, Silent) as problem:
        tell(f"the shim is off: {problem}")
        return launch.without_shim(os.environ)


def _launched(given: Namespace, command: list[str], found: Extras, output: IO[bytes] | None = None) -> Launched:
    from mpmon.launch import Launched

    job = Launched(command, _environment(given), output)
    if found.alarm:
        found.alarm.wrapped = job.with_signals_of_before
    return job


def _headless(given: Namespace, command: list[str], found: Extras) -> int:
    from mpmon.commands import headless

    job = _launched(given, command, found)
    with headless.watched(given, job, found):
        status = job.wait()
    return status or 0


def _on_screen(given: Namespace, command: list[str], found: Extras) -> int:
    from mpmon.commands import live, show

    show.sink(given)  # Invalid options are reported before the job is started.
    name = given.output or f"mpmon-{os.getpid()}.out"
    try:
        asked([name], os.path.lexists, os.path.abspath(name))
        output = open(name, "xb", buffering=0)  # noqa: SIM115  the job keeps it open
    except OSError as problem:
        raise UsageError(f"{name} cannot be created: {(problem.strerror or 'unknown reason').lower()}.",
                         "Name another one with --output.") from problem  # fmt: skip
    path = os.path.abspath(name)
    with output:
        job = _launched(given, command, found, output)
    tell(f"the output of {command[0]} goes to {name}")
    try:
        live.watch_with(given, job.pid, found)
    except Exception as problem:
        tell(f"the job is not watched: {in_words(problem)}")
    status = job.wait(0)
    if status is not None:
        tell(f"the job ended with status {status}; its output is in {name}")
        return status
    return _follow(
        path, job, f"the job continues (pid {job.pid}); its output so far is in {name}; Ctrl-C goes to the job"
    )


def _follow(path: str, job: Launched, words: str) -> int:
    """Print these words, then the job's output from now on until it ends, as far as its file can be read."""
    output: RawIOBase | None = None
    # After these words, the user expects everything that follows.
    with contextlib.suppress(OSError, Silent):
        output = _end_of(path)
    tell(words)
    status, told = job.wait(0), False
    while True:
        try:
            output = output or _end_of(path)
            _show(output)
        except (OSError, Silent) as problem:
            if not told:
                tell(f"the job's output is not shown: {problem}")
            told = True
        if status is not None:
            break
        status = job.wait(FOLLOW_S)
    if output:
        output.close()
    return status


def _end_of(path: str) -> RawIOBase:
    """
    Raises:
        OSError: as open(2).
        Silent: its file system does not answer.
    """
    far = served(path)
    output = Reader(far) if far else open(path, "rb", buffering=0)  # noqa: SIM115  whoever follows it closes it
    output.seek(0, os.SEEK_END)
    return output


def _show(output: RawIOBase) -> None:
    """Print new output.

    Raises:
        OSError: as read(2).
        Silent: its file system does not answer.
    """
    while part := output.read(PART):
        # The terminal may be gone.
        with contextlib.suppress(OSError, MpmonError):
            sys.stdout.buffer.write(part)
            sys.stdout.flush()


def _clean() -> None:
    """Remove files of earlier jobs; those of this one stay for inspection after it ends."""
    from mpmon.launch import shim_folder
    from mpmon.probes.shim import clean

    with contextlib.suppress(OSError, Silent):
        folder = shim_folder()
        asked([folder], clean, [folder])
