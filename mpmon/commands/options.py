"""What may be said on the command line of a command that watches a job."""

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
    "Tells why a multi-process PyTorch job hangs: which process blocks the others, on which line, and the proof."
)

DEFAULT_THEME = "ansi-dark"
"""The colours of the user's terminal."""

STACKS = ("auto", "py-spy", "native", "never")
"""Who reads them; the first one unless something else is said."""

RAS = "localhost:28028"
"""Where NCCL's RAS listens unless NCCL_RAS_ADDR of the job says another place."""

SHORTEST_S = 0.1

EXAMPLES = """\
examples:
  mpmon 4100 --once                    one report; exit status 3 when it hangs
  mpmon 4100 --once --json | jq .findings
  mpmon 4100 --record hang.jsonl.gz    keep the facts, look at them anywhere:
  mpmon --replay hang.jsonl.gz
  mpmon --replay n1.gz n2.gz           recordings of all machines of a job, as one
"""


class Parser(argparse.ArgumentParser):
    """Of every command."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the command line, in which anything may stand, and leave."""
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
    rows = [("PID", "watch the job under PID on a live screen"), ("", "list the jobs that run here and pick one")]
    rows += [(f"{name} {takes}", does) for name, (takes, does) in COMMANDS.items()]
    width = max(len(call) for call, _ in rows)
    return "commands:\n" + "".join(f"  mpmon {call:<{width}}  {does}\n" for call, does in rows)


def add_subject(parser: argparse.ArgumentParser) -> None:
    """What is watched."""
    parser.add_argument(
        "pid", nargs="?", type=pid, metavar="PID", help="any process of the job; its launcher shows all"
    )
    parser.add_argument("--up", action="store_true", help="climb from PID to the root of its job")
    parser.add_argument("--replay", metavar="FILE", nargs="+",
                        help="play a recording in place of a PID; several, one of each machine of a job, as one")  # fmt: skip


def add_watching(parser: argparse.ArgumentParser) -> None:
    """Options of every command that watches a job."""
    parser.add_argument(
        "--once", action="store_true", help="look, print a report, exit (0 no hang, 3 hung, 4 cannot tell)"
    )
    parser.add_argument("--for", dest="seconds", type=seconds, default=10.0, metavar="SECONDS",
                        help="longest look of --once (default 10; sooner when the answer is clear)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="JSON: one document with --once, else one a line")
    parser.add_argument("--plain", action="store_true", help="a line for whatever happens: for logs and screen readers")
    add_recording(parser)
    add_alarm(parser)
    add_settings(parser)


def add_nodes(parser: argparse.ArgumentParser) -> None:
    """A job on many nodes in place of a PID."""
    nodes = parser.add_argument_group("one job on many nodes")
    nodes.add_argument("--slurm", metavar="JOB", help="a Slurm job, or a step of it: 7, 7.0")
    nodes.add_argument("--nodes", metavar="NAMES", help="machines that ssh reaches: 'n[1-64,70]', n1,n2, @group")
    nodes.add_argument("--pods", metavar="SELECTOR", help="pods of Kubernetes: job-name=train")
    nodes.add_argument("-n", "--namespace", metavar="NAME", help="that of the pods")
    nodes.add_argument("-c", "--container", metavar="NAME", help="that in the pods")
    nodes.add_argument(
        "--agent", metavar="PATH", help="the mpmon of the nodes, where it is not this one or on the PATH"
    )


def add_recording(parser: argparse.ArgumentParser) -> None:
    """What is kept of the looks at a live job, and what else is asked."""
    parser.add_argument("--record", metavar="FILE", help="keep the facts in a new file (.gz packs it)")
    add_flight_recorder(parser)
    add_nccl_ras(parser)


def add_alarm(parser: argparse.ArgumentParser) -> None:
    """Who is told of a hang of a live job."""
    parser.add_argument("--on-hang", metavar="CMD",
                        help="run this in a shell once when a hang begins and once when it is over, with the report as input; "
                        "MPMON_EVENT is hang or end, MPMON_CAUSE, MPMON_SUSPECT ... say why (mpmon explain alerts)")  # fmt: skip


def add_flight_recorder(parser: argparse.ArgumentParser) -> None:
    """Where numbers of collectives are to be had."""
    parser.add_argument("--flight-recorder", metavar="SOURCE", action="append", default=[],
                        help="numbers of collectives: JSON file of a rank, folder of them, or http://HOST:PORT "
                        "of a torch debug server, which is asked (repeatable)")  # fmt: skip


def add_nccl_ras(parser: argparse.ArgumentParser) -> None:
    """Whether NCCL itself is asked."""
    parser.add_argument("--nccl-ras", metavar="HOST:PORT", nargs="?", type=ras_address, const=RAS,
                        help="in a hang ask NCCL's RAS (2.28.7 or newer), once; some versions of NCCL crash when asked: "
                        "mpmon explain flight-recorder (default " + RAS + ")")  # fmt: skip


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Those of them that a file may set too: `mpmon.commands.settings`."""
    parser.add_argument(
        "--interval", type=seconds, default=1.0, metavar="SECONDS", help="between two rounds (default 1)"
    )
    parser.add_argument(
        "--stacks",
        choices=STACKS,
        default=STACKS[0],
        help="auto: read by mpmon, by py-spy where it must; py-spy: by that alone; native: C and C++ frames of all threads"
        " as well; never: not at all",
    )
    parser.add_argument("--readonly", action=argparse.BooleanOptionalAction, default=False, help="offer no signals")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto",
                        help="auto: unless NO_COLOR is set")  # fmt: skip
    parser.add_argument("--no-color", dest="color", action="store_const", const="never", help="as --color never")
    parser.add_argument(
        "--theme", metavar="NAME", default=DEFAULT_THEME, help=f"of the screen (default {DEFAULT_THEME})"
    )
    parser.add_argument("--ascii", action=argparse.BooleanOptionalAction, default=False, help="draw with ASCII only")


def actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """What a parser takes, in the order of its help; argparse has no public name for it."""
    return parser._actions  # pyright: ignore[reportPrivateUsage]


def name(action: argparse.Action) -> str:
    """The long name of an option, without its dashes."""
    long = next((text for text in action.option_strings if text.startswith("--")), action.dest)
    return long.removeprefix("--")


def is_switch(action: argparse.Action) -> bool:
    """It takes no value."""
    return action.nargs == 0


def pid(text: str) -> int:
    """A number of a process, for argparse."""
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
        raise argparse.ArgumentTypeError(f"{text!r} is no HOST:PORT; a PID has to stand before --nccl-ras")
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
