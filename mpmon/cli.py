"""The command line: arguments to a source and a sink. What it imports at the top is all that `--help` needs."""

from __future__ import annotations

import argparse
import os
import sys

from mpmon import __version__
from mpmon.errors import CannotTell, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mpmon.diagnosis.findings import Observation
    from mpmon.probes.flight_recorder import FlightRecorder
    from mpmon.session.recording import Recorder
    from mpmon.session.watch import LiveWatch
    from mpmon.source import Watch

DESCRIPTION = "Tells why a multi-process PyTorch job hangs: who must move first, on which line, and the proof."

EXAMPLES = """\
commands:
  mpmon PID              watch the job under PID on a live screen
  mpmon                  list the jobs that run here and pick one
  mpmon demo [SCENE]     start a small job that really hangs, and watch it (--list)
  mpmon doctor [PID]     what can be read here, what cannot, and the remedy
  mpmon explain [CAUSE]  the manual page of a cause

examples:
  mpmon 4100 --once                    one report; exit status 3 when it hangs
  mpmon 4100 --once --json | jq .findings
  mpmon 4100 --record hang.jsonl.gz    keep the facts, look at them anywhere:
  mpmon --replay hang.jsonl.gz
"""

EXIT_STATUS = {"healthy": 0, "slow": 0, "hung": 3, "unknown": 4}
"""Of `--once`, by verdict."""


def run(arguments: list[str]) -> int:
    """Do what the arguments say; the exit status.

    Raises:
        MpmonError: one sentence for the user, with the remedy.
    """
    if arguments and arguments[0] in COMMANDS:
        return COMMANDS[arguments[0]](arguments[1:])
    return _watch(_watch_parser(with_pid=True).parse_args(arguments))


# Watching


def _watch_parser(*, with_pid: bool, prog: str = "mpmon") -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog, description=DESCRIPTION if with_pid else None, epilog=EXAMPLES if with_pid else None,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    if with_pid:
        parser.add_argument(
            "pid", nargs="?", type=_pid, metavar="PID", help="any process of the job; its launcher shows all"
        )
        parser.add_argument("-V", "--version", action="version", version=f"mpmon {__version__}")
        parser.add_argument("--up", action="store_true", help="climb from PID to the root of its job")
        parser.add_argument("--replay", metavar="FILE", help="play a recording in place of a PID")
    parser.add_argument(
        "--once", action="store_true", help="look, print a report, exit (0 no hang, 3 hung, 4 cannot tell)"
    )
    parser.add_argument("--for", dest="seconds", type=_seconds, default=10.0, metavar="SECONDS",
                        help="longest look of --once (default 10; sooner when the answer is clear)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="JSON: one document with --once, else one a line")
    parser.add_argument("--record", metavar="FILE", help="keep the facts in a new file (.gz packs it)")
    parser.add_argument(
        "--interval", type=_seconds, default=1.0, metavar="SECONDS", help="between two rounds (default 1)"
    )
    parser.add_argument(
        "--stacks", choices=("auto", "never"), default="auto", help="never: ask no process for its stacks"
    )
    parser.add_argument("--flight-recorder", metavar="SOURCE", action="append", default=[],
                        help="numbers of collectives: JSON file of a rank, folder of them, or http://HOST:PORT "
                        "of a torch debug server, which is asked (repeatable)")  # fmt: skip
    parser.add_argument("--readonly", action="store_true", help="offer no signals")
    parser.add_argument("--no-color", action="store_true", help="no colours (as NO_COLOR)")
    parser.add_argument("--ascii", action="store_true", help="draw with ASCII only")
    return parser


def _watch(options: argparse.Namespace) -> int:
    if options.replay and options.pid is not None:
        raise UsageError("a PID and --replay do not go together.", "Give one of them.")
    if options.replay:
        return _replay(options)
    return _live(options, _root_pid(options))


def _root_pid(options: argparse.Namespace) -> int:
    from mpmon import jobs

    if options.pid is not None:
        return _named_root(options, jobs.climb(options.pid))
    found = jobs.running_jobs()
    if not sys.stdin.isatty() and len(found) > 1:
        listed = "\n".join(f"  {jobs.describe(job)}" for job in found)
        raise UsageError(f"several jobs run here, give the PID of one:\n{listed}")
    return jobs.choose(found, sys.stdin, sys.stderr).root_pid


def _named_root(options: argparse.Namespace, top: int) -> int:
    if options.up or top == options.pid:
        return top
    print(f"mpmon: pid {options.pid} is a part of the job under pid {top}; --up shows it all.", file=sys.stderr)
    return options.pid


def _live(options: argparse.Namespace, pid: int) -> int:
    flight_recorder = _flight_recorder(options.flight_recorder) if options.flight_recorder else None
    wants_report = _wants_report(options)
    recorder = _recorder(options.record) if options.record else None
    try:
        watch = _live_watch(options, pid, recorder, flight_recorder, eager=wants_report)
        if wants_report or options.json:
            return _show(options, watch, wants_report=wants_report)
        return _open_screen_at_once(options, watch)
    finally:
        if recorder:
            recorder.close()


def _flight_recorder(sources: list[str]) -> FlightRecorder:
    from mpmon.probes import flight_recorder

    return flight_recorder.FlightRecorder(flight_recorder.sources(sources))


def _recorder(name: str) -> Recorder:
    from pathlib import Path

    from mpmon.session.recording import Recorder

    return Recorder(Path(name))


def _open_screen_at_once(options: argparse.Namespace, watch: LiveWatch) -> int:
    """Show the processes before the screen is imported, which takes ten times as long as the first look."""
    from mpmon.tui.first_frame import LEAVE, first_frame

    size = os.get_terminal_size(sys.stdout.fileno())
    sys.stdout.write(first_frame(watch.first_snapshot(), size.columns, size.lines, ascii_only=options.ascii))
    sys.stdout.flush()
    try:
        return _open_screen(options, watch)
    except BaseException:
        # The screen did not come up to leave the terminal as it was.
        sys.stdout.write(LEAVE)
        sys.stdout.flush()
        raise


def _live_watch(
    options: argparse.Namespace,
    pid: int,
    recorder: Recorder | None,
    flight_recorder: FlightRecorder | None,
    *,
    eager: bool,
) -> LiveWatch:
    if not sys.platform.startswith("linux"):
        raise CannotTell("a live job can be read on Linux only.", "Recordings open anywhere: mpmon --replay FILE")
    from mpmon.probes.files import Proc
    from mpmon.session.sampler import Sampler
    from mpmon.session.watch import LiveWatch

    def make_sampler(now: Callable[[], float]) -> Sampler:
        return Sampler(
            Proc(), pid, now=now, host=os.uname().nodename, stacks=options.stacks, eager=eager,
            flight_recorder=flight_recorder,
        )  # fmt: skip

    return LiveWatch(make_sampler, interval=options.interval, recorder=recorder)


def _replay(options: argparse.Namespace) -> int:
    from pathlib import Path

    from mpmon.session.watch import ReplayWatch

    if options.record:
        raise UsageError("--record and --replay do not go together.", "Copy the file.")
    if options.flight_recorder:
        raise UsageError(
            "--flight-recorder and --replay do not go together.", "A recording made with --flight-recorder holds it."
        )
    wants_report = _wants_report(options)
    watch = ReplayWatch(Path(options.replay), at_once=wants_report or options.json)
    return _show(options, watch, wants_report=wants_report)


def _wants_report(options: argparse.Namespace) -> bool:
    """Without a terminal there is no screen to draw on."""
    if options.once:
        return True
    if options.json or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb"):
        return False
    print("mpmon: standard output is not a terminal, so this is one report (--once).", file=sys.stderr)
    return True


def _show(options: argparse.Namespace, watch: Watch, *, wants_report: bool) -> int:
    if wants_report:
        return _print_report(options, watch)
    if options.json:
        return _print_lines(watch)
    return _open_screen(options, watch)


def _print_report(options: argparse.Namespace, watch: Watch) -> int:
    from mpmon.reports import document, text

    last: Observation | None = None
    for observation in watch:
        last = observation
        if watch.live and (
            observation.diagnosis.settled or observation.watched_s >= options.seconds - options.interval / 2
        ):
            watch.stop()
    if last is None:
        raise CannotTell("nothing could be read.", "Is the recording empty?")
    print(document.render_pretty(last) if options.json else text.render(last, ascii_only=options.ascii))
    sys.stdout.flush()
    return EXIT_STATUS[last.diagnosis.verdict.value]


def _print_lines(watch: Watch) -> int:
    from mpmon.reports import document

    for observation in watch:
        print(document.render(observation), flush=True)
    return 0


def _open_screen(options: argparse.Namespace, watch: Watch) -> int:
    from mpmon.reports import text
    from mpmon.tui import app

    color = not options.no_color and not os.environ.get("NO_COLOR")
    return app.run(
        watch, ascii_only=options.ascii, color=color, readonly=options.readonly, interval=options.interval,
        export=text.render,
    )  # fmt: skip


# The other commands


def _demo(arguments: list[str]) -> int:
    parser = _watch_parser(with_pid=False, prog="mpmon demo")
    parser.description = "Start a small real job that hangs, and watch it. Everything it started is gone afterwards."
    parser.add_argument("scene", nargs="?", metavar="SCENE", help="which job (see --list)")
    parser.add_argument("--list", action="store_true", help="name the scenes")
    options = parser.parse_args(arguments)
    from mpmon import demo

    if options.list:
        print("\n".join(f"{scene.name:<14} {scene.title}" for scene in demo.scenes()))
        return 0
    with demo.start(options.scene or demo.DEFAULT_SCENE) as running:
        print(f"mpmon: started {running.label} (pid {running.pid})", file=sys.stderr)
        return _live(options, running.pid)


def _doctor(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="mpmon doctor", description="What can be read here, what cannot, why, and the remedy."
    )
    parser.add_argument("pid", nargs="?", type=_pid, metavar="PID", help="also check this process")
    options = parser.parse_args(arguments)
    from mpmon import doctor

    checks = doctor.checkup(options.pid)
    print(doctor.render(checks))
    return doctor.exit_status(checks)


def _explain(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="mpmon explain", description="The manual page of a cause.")
    parser.add_argument("cause", nargs="?", metavar="CAUSE", help="without it, the list")
    options = parser.parse_args(arguments)
    from mpmon.diagnosis.rules import RULES

    pages = {rule.CAUSE: (rule.__doc__ or "").strip() for rule in RULES}
    if options.cause is None:
        print("\n".join(f"{cause:<22} {page.splitlines()[0]}" for cause, page in sorted(pages.items())))
        return 0
    if options.cause not in pages:
        raise UsageError(f"there is no cause {options.cause!r}.", "List them with: mpmon explain")
    print(f"{options.cause}\n\n{pages[options.cause]}")
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {"demo": _demo, "doctor": _doctor, "explain": _explain}
"""The commands by name; anything else is a PID or an option."""


def _pid(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a pid nor one of: {', '.join(COMMANDS)}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time of 0.1 to 86400 seconds")
    return seconds
