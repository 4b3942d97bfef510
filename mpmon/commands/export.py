"""`mpmon export PID`: mpmon's findings about a job as Prometheus metrics, for as long as the job runs."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from contextlib import ExitStack, contextmanager

from mpmon.commands import live, options, settings, watch
from mpmon.errors import UsageError, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Generator

    from mpmon.export.outlets import Server, TextFile
    from mpmon.source import Watch

KIT = {
    "alerts": ("mpmon.rules.yml", "Prometheus rules"),
    "dashboard": ("dashboard.json", "a Grafana dashboard"),
    "unit": ("mpmon-export@.service", "a systemd template unit"),
    "slurm": ("train.sbatch", "a batch script that records before the time limit"),
}
"""What can be printed: its file in mpmon/export/kit, and what it is."""

PROGRAM = "@MPMON@"
"""Placeholder in these files for the program that prints them."""


def run(arguments: list[str]) -> int:
    """Export until the job or this process is ended."""
    given = settings.parse(parser(), arguments)
    if given.print is not None:
        print(kit(given.print), end="")
        return 0
    try:
        from mpmon.export.page import CONTENT_TYPE, page
    except ModuleNotFoundError as problem:
        raise UsageError(
            "exporting needs the package prometheus_client.", "Run: pip install 'mpmon[prometheus]'"
        ) from problem
    watch.check(given)
    if given.textfile is None and given.listen is None:
        raise UsageError("no export target was given.", "Give --textfile FILE or --listen 127.0.0.1:9877.")
    from mpmon.export.samples import Samples

    samples, is_part = Samples(given.job_id), False
    with ExitStack() as stack:
        watched = stack.enter_context(_looks(given))
        outlets = _outlets(given, stack, CONTENT_TYPE)

        def end(_number: int, _frame: object) -> None:
            watched.stop()

        signal.signal(signal.SIGTERM, end)
        for observation in watched:
            text = page(samples.add(observation, sum(os.times()[:4])))
            for outlet in outlets:
                outlet.put(text)
            if observation.diagnosis.elsewhere and not is_part:
                is_part = True
                tell(
                    f"{observation.diagnosis.elsewhere} ranks of this job run on other machines, so no verdict and no hang "
                    "are exported here. Export all of it from one place: mpmon export --slurm JOB, --nodes or --pods."
                )
    return 0


def kit(name: str) -> str:
    """One of the files in `KIT`, with the running program substituted."""
    from pathlib import Path

    from mpmon import export

    file = KIT[name][0]
    text = (Path(export.__file__).parent / "kit" / file).read_text(encoding="utf-8")
    program = shlex.join([sys.executable, "-m", "mpmon"])
    # systemd.unit(5): a percent sign is a specifier.
    return text.replace(PROGRAM, program.replace("%", "%%") if name == "unit" else program)


def parser() -> argparse.ArgumentParser:
    """What this command takes."""
    made = options.Parser(
        prog="mpmon export", allow_abbrev=False,
        description="Export mpmon's findings about a job as Prometheus metrics, as long as the job runs.",
    )  # fmt: skip
    made.add_argument("pid", nargs="?", type=options.pid, metavar="PID", help="pid of the job's launcher (see --up)")
    made.add_argument("--up", action="store_true", help="climb from PID to the root of its job")
    options.add_nodes(made)
    made.add_argument("--textfile", metavar="FILE",
                      help="for the textfile collector of node_exporter: FILE.prom is replaced after each round")  # fmt: skip
    made.add_argument("--listen", type=_address, metavar="[ADDRESS:]PORT",
                      help="answer Prometheus at http://ADDRESS:PORT/metrics (without ADDRESS: this machine only)")  # fmt: skip
    made.add_argument(
        "--job-id", metavar="NAME", help="the label job_id (default: that of Slurm or torchrun, else PID)"
    )
    made.add_argument("--print", choices=tuple(KIT), help="print a template file: "
                      + ", ".join(f"{name} ({does})" for name, (_, does) in KIT.items()))  # fmt: skip
    options.add_recording(made)
    options.add_alarm(made)
    options.add_settings(made)
    made.set_defaults(replay=None, once=False, json=False, plain=False, seconds=10.0)
    return made


@contextmanager
def _looks(given: Namespace) -> Generator[Watch, None, None]:
    if watch.ways(given):
        from mpmon.commands import nodes

        with nodes.looks(given, "documents") as watched:
            yield watched
        return
    pid = watch.root_pid(given)
    with live.extras(given) as found:
        yield live.looks(given, pid, found, "documents")


def _outlets(given: Namespace, stack: ExitStack, content_type: str) -> list[TextFile | Server]:
    from mpmon.export.outlets import Server, TextFile, is_own

    made: list[TextFile | Server] = []
    if given.textfile is not None:
        made.append(TextFile(given.textfile, tell))
    if given.listen is not None:
        host, port = given.listen
        server = Server(host, port, content_type)
        made.append(server)
        host = f"[{server.host}]" if ":" in server.host else server.host
        tell(
            f"http://{host}:{server.port}/metrics"
            + ("" if is_own(server.host) else ", for any machine that reaches this one")
        )
    for outlet in made:
        stack.callback(outlet.close)
    return made


def _address(text: str) -> tuple[str, int]:
    from mpmon.export.outlets import address

    try:
        return address(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an address and a port, as in 127.0.0.1:9877") from None
