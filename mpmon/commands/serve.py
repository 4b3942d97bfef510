"""`mpmon serve PID`: the screen in a browser, for this machine only."""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import sys

from mpmon import start
from mpmon.commands import options, settings, show, watch
from mpmon.errors import UsageError, tell
from mpmon.numerals import numeral
from mpmon.probes.own import asked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable


def run(arguments: list[str]) -> int:
    """Serve until Ctrl-C."""
    given = settings.parse(parser(), arguments)
    try:
        from mpmon.serve.server import LocalServer
    except ModuleNotFoundError as problem:
        raise UsageError("serving needs the package textual-serve.", "Run: pip install 'mpmon[serve]'") from problem
    # A settings file cannot allow it: permission for browsers must be given on the command line.
    given.readonly = parser().parse_args(arguments).readonly
    watch.check(given)
    show.check_theme(given.theme)
    title, what, is_there = _recording(given) if given.replay is not None else _job(given)
    command = start.command("mpmon.serve.screen", str(os.getpid()), *what, *settings.arguments(given))
    server = LocalServer(command, f"mpmon {title}", is_there=is_there)
    with _listening(given.port) as door:
        port = door.getsockname()[1]
        print(f"http://127.0.0.1:{port}/{server.secret}/", flush=True)
        tell(
            "anyone with this address sees the job. From another machine: "
            f"ssh -L {port}:127.0.0.1:{port} {socket.gethostname()}, then the same address. Ctrl-C ends it."
        )
        # textual-serve prints the errors of its processes.
        with contextlib.redirect_stdout(sys.stderr):
            server.answer(door)
    return 0


def parser() -> argparse.ArgumentParser:
    """What this command takes."""
    made = options.Parser(
        prog="mpmon serve", allow_abbrev=False,
        description="Show the screen in a browser, on this machine only, to anyone with the address it prints. "
        "Signals can be sent to the job, secrets of its environment shown and files written only with --no-readonly.",
    )  # fmt: skip
    options.add_subject(made)
    made.add_argument("--port", type=_port, default=0, metavar="N", help="port to listen on (default: any free one)")
    options.add_flight_recorder(made)
    options.add_settings(made)
    made.set_defaults(readonly=True)
    return made


def _job(given: Namespace) -> tuple[str, list[str], Callable[[], bool]]:
    import psutil

    pid = watch.root_pid(given)
    try:
        job = psutil.Process(pid)
    except psutil.NoSuchProcess as problem:
        raise UsageError(f"there is no process {pid}.", "List the running jobs with: mpmon") from problem
    if given.flight_recorder:
        from mpmon.probes import flight_recorder

        flight_recorder.sources(given.flight_recorder)
    sources = [word for source in given.flight_recorder for word in ("--flight-recorder", source)]
    return f"pid {pid}", [str(pid), *sources], job.is_running


def _recording(given: Namespace) -> tuple[str, list[str], Callable[[], bool]]:
    from pathlib import Path

    from mpmon.session.recording import read_recording

    files = [os.path.abspath(name) for name in given.replay]
    for name, file in zip(given.replay, files, strict=True):
        if asked([file], os.path.exists, file) and not asked([file], os.path.isfile, file):
            raise UsageError(f"{name} is not a regular file, and each window reads it again.", "Give a recording.")
        # Only its header is read; later damage is reported in the windows.
        read_recording(Path(file))
    return ", ".join(map(os.path.basename, files)), ["--replay", *files], lambda: True


def _listening(port: int) -> socket.socket:
    try:
        door = socket.create_server(("127.0.0.1", port))
    except OSError as problem:
        raise UsageError(f"cannot listen on port {port}: {problem.strerror}.", "Give another --port.") from problem
    door.setblocking(False)
    return door


def _port(text: str) -> int:
    number = numeral(text)
    if number is None or number > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return number
