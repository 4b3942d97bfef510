"""The command line options of all commands that watch a job."""

from __future__ import annotations

import argparse

from mpmon import __version__
from mpmon.commands import COMMANDS
from mpmon.errors import LONGEST
from mpmon.printable import in_bounds, written_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from mpmon.probes.nccl_ras import Address

DESCRIPTION = (
    "Explains why a multi-process PyTorch job hangs: which process blocks the others, on which line, and the evidence."
)

DEFAULT_THEME = "ansi-dark"
"""The colours of the user's terminal."""

STACKS = ("auto", "py-spy", "native", "never")
"""Readers of stacks; the first one is the default."""

RAS = "localhost:28028"
"""Where NCCL's RAS listens unless NCCL_RAS_ADDR of the job says another place."""

SHORTEST_S = 0.1

EXAMPLES = """\
examples:
  mpmon 4100 --once                    one report; exit status 3 means hung
  mpmon 4100 --once --json | jq .findings
  mpmon 4100 --record hang.jsonl.gz    save the facts, view them anywhere:
  mpmon --replay hang.jsonl.gz
  mpmon --replay n1.gz n2.gz           recordings of all machines, as one job
"""


class Parser(argparse.ArgumentParser):
    """Of every command."""

    def error(self, message: str) -> NoReturn:
        """Report an error in the command line, which may contain anything, and exit."""
        super().error(in_bounds(written_out(message), LONGEST))


def program() -> argparse.ArgumentParser:
    """The parser of a call without a command: a PID or a recording to watch."""
    parser = Parser(
        prog="mpmon", description=DESCRIPTION, epilog=f"{_commands()}\n{EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    add_subject(parser)
    add_nodes(parser)
    parser.add_argument("-V", "--version", action="version", version=f"mpmon {__version__}")
    add_watching(parser)
    return parser


def _commands() -> str:
    rows = [("PID", "watch the job under PID on a live screen"), ("", "list the jobs on this machine and pick one")]
    rows += [(f"{name} {takes}", does) for name, (takes, does) in COMMANDS.items()]
    width = max(len(call) for call, _ in rows)
    return "commands:\n" + "".join(f"  mpmon {call:<{width}}  {does}\n" for call, does in rows)


def add_subject(parser: argparse.ArgumentParser) -> None:
    """What is watched."""
    parser.add_argument(
        "pid",
        nargs="?",
        type=pid,
        metavar="PID",
        help="pid of the job's launcher (of any other process: only that one and its descendants are watched; see --up)",
    )
    parser.add_argument("--up", action="store_true", help="climb from PID to the root of its job")
    parser.add_argument("--replay", metavar="FILE", nargs="+",
                        help="play a recording instead of a PID; several, one per machine, as one job")  # fmt: skip


def add_watching(parser: argparse.ArgumentParser) -> None:
    """Options of every command that watches a job."""
    parser.add_argument(
        "--once", action="store_true", help="observe, print a report, exit (0 no hang, 3 hung, 4 cannot tell)"
    )
    parser.add_argument("--for", dest="seconds", type=seconds, default=10.0, metavar="SECONDS",
                        help="time limit of --once (default 10; ends early when the answer is clear)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="JSON: one document with --once, otherwise one per line")
    parser.add_argument("--plain", action="store_true", help="one line per event, for logs and screen readers")
    add_recording(parser)
    add_alarm(parser)
    add_settings(parser)


def add_nodes(parser: argparse.ArgumentParser) -> None:
    """A job on many nodes in place of a PID."""
    nodes = parser.add_argument_group("one job on many nodes")
    nodes.add_argument("--slurm", metavar="JOB", help="a Slurm job, or a step of it: 7, 7.0")
    nodes.add_argument("--nodes", metavar="NAMES", help="machines that ssh reaches: 'n[1-64,70]', n1,n2, @group")
    nodes.add_argument("--pods", metavar="SELECTOR", help="Kubernetes pods: job-name=train")
    nodes.add_argument("-n", "--namespace", metavar="NAME", help="namespace of the pods")
    nodes.add_argument("-c", "--container", metavar="NAME", help="container in the pods")
    nodes.add_argument("--agent", metavar="PATH",
                       help="path of mpmon on the nodes, if it is neither the path used here nor on their PATH")  # fmt: skip


def add_recording(parser: argparse.ArgumentParser) -> None:
    """Recording of a live job, and additional sources."""
    parser.add_argument("--record", metavar="FILE", help="save the facts to a new file (.gz compresses it)")
    add_flight_recorder(parser)
    add_nccl_ras(parser)


def add_alarm(parser: argparse.ArgumentParser) -> None:
    """The alarm for a hang of a live job."""
    parser.add_argument("--on-hang", metavar="CMD",
                        help="run this in a shell when a hang begins, when its cause or suspect changes, and when it is "
                        "over, with the report as input; "
                        "MPMON_EVENT is hang or end, MPMON_CAUSE, MPMON_SUSPECT ... say why (mpmon explain alerts)")  # fmt: skip


def add_flight_recorder(parser: argparse.ArgumentParser) -> None:
    """Sources of collective sequence numbers."""
    parser.add_argument("--flight-recorder", metavar="SOURCE", action="append", default=[],
                        help="sequence numbers of collectives: JSON file of a rank, folder of them, or "
                        "http://HOST:PORT of a torch debug server to query (repeatable)")  # fmt: skip


def add_nccl_ras(parser: argparse.ArgumentParser) -> None:
    """Whether NCCL itself is asked."""
    parser.add_argument("--nccl-ras", metavar="HOST:PORT", nargs="?", type=ras_address, const=RAS,
                        help="query NCCL's RAS (2.28.7 or newer) once per hang; some NCCL versions crash when queried: "
                        "mpmon explain flight-recorder (default " + RAS + ")")  # fmt: skip


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Options that a settings file may set too: `mpmon.commands.settings`.

    Every command with a screen has them, so what the screen needs besides has its default here.
    """
    parser.set_defaults(about="")
    parser.add_argument(
        "--interval", type=seconds, default=None, metavar="SECONDS",
        help="seconds between samples (default 1; on the screen 2 while the job is healthy)",
    )  # fmt: skip
    parser.add_argument(
        "--stacks",
        choices=STACKS,
        default=STACKS[0],
        help="auto: read by mpmon, by py-spy if necessary; py-spy: only by py-spy; native: also C and C++ frames of all"
        " threads; never: no stacks",
    )
    parser.add_argument(
        "--readonly",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="never send signals (with mpmon serve, where it is the default, also write no files and show no secrets)",
    )
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto",
                        help="auto: colours unless NO_COLOR is set")  # fmt: skip
    parser.add_argument("--no-color", dest="color", action="store_const", const="never", help="same as --color never")
    parser.add_argument(
        "--theme", metavar="NAME", default=DEFAULT_THEME, help=f"theme of the screen (default {DEFAULT_THEME})"
    )
    parser.add_argument("--ascii", action=argparse.BooleanOptionalAction, default=False, help="draw with ASCII only")


def actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The arguments of a parser, in the order of its help; argparse has no public API for it."""
    return parser._actions  # pyright: ignore[reportPrivateUsage]


def name(action: argparse.Action) -> str:
    """The long name of an option, without its dashes."""
    long = next((text for text in action.option_strings if text.startswith("--")), action.dest)
    return long.removeprefix("--")


def is_switch(action: argparse.Action) -> bool:
    """It takes no value."""
    return action.nargs == 0


def pid(text: str) -> int:
    """A pid, for argparse."""
    # `str.isdigit` knows the digits of all scripts.
    if not (text.isascii() and text.isdigit()) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a pid nor one of: {', '.join(COMMANDS)}")
    return int(text)


def ras_address(text: str) -> Address:
    """Where NCCL's RAS listens, for argparse."""
    from mpmon.probes.nccl_ras import Address

    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    fits = colon and host and host.isprintable() and " " not in host and port.isascii() and port.isdigit()
    if not fits or not 0 < int(port[:6]) < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT; put a PID before --nccl-ras")
    return Address(host, int(port))


def seconds(text: str) -> float:
    """A time, for argparse."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not SHORTEST_S <= number <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time of {SHORTEST_S} to 86400 seconds")
    return number
