"""Command line of the benchmarks: `python -m tests.benchmarks [PART …]`."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks import gpus, harm, keys, live, look, machine, nodes, replay, shim, soak, start, tools, verdict
from tests.benchmarks.rig import Rig

if TYPE_CHECKING:
    from types import FrameType

PARTS = {
    "look": look.measure,
    "live": live.measure,
    "gpus": gpus.measure,
    "keys": keys.measure,
    "replay": replay.measure,
    "start": start.measure,
    "harm": harm.measure,
    "verdict": verdict.measure,
    "shim": shim.measure,
    "nodes": nodes.measure,
    "soak": soak.measure,
}
PARTS_BY_DEFAULT = [part for part in PARTS if part != "soak"]
SIZES = {
    "look": (16, 64, 256), "live": (64, 256), "gpus": (64,), "keys": (64,), "replay": (512,), "start": (64,),
    "harm": (16,), "verdict": (50, 200), "shim": (), "nodes": (48, 64, 1_000, 10_000), "soak": (),
}  # fmt: skip


def main() -> None:
    """Measure the parts that were asked for and print their tables as they come."""
    options = _options()
    signal.signal(signal.SIGTERM, _end)
    print(f"# What mpmon costs\n\n{machine.facts()}\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="mpmon-benchmarks-") as folder:
        setting = tools.set_up(Path(folder))
        for part in options.parts or PARTS_BY_DEFAULT:
            sizes = options.processes or SIZES[part]
            rig = Rig(setting, options.rounds, options.seconds, sizes, options.hung, options.minutes)
            for table in PARTS[part](rig):
                print(table, flush=True)


def _end(number: int, _frame: FrameType | None) -> None:
    """Leave through all contexts, so that the jobs, the programs and the folder go too."""
    sys.exit(128 + number)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks", description="What mpmon costs, beside its peers, as Markdown."
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all but soak")
    parser.add_argument(
        "--quick", action="store_true", help="one round of 3 s: does the rig work, roughly what comes out"
    )
    parser.add_argument("--rounds", type=int, help="how often the programs take turns (default 3)")
    parser.add_argument("--seconds", type=float, help="how long a program is measured in one round (default 8)")
    parser.add_argument(
        "--processes",
        type=int,
        action="append",
        help="size of the job, for part nodes of its machines; may be given more than once",
    )
    parser.add_argument(
        "--minutes", type=float, default=10.0,
        help="soak: how long one screen watches a job whose processes come and go, a row each half minute (default 10)",
    )  # fmt: skip
    parser.add_argument("--hung", action="store_true", help="measure on a job in which nothing moves")
    options = parser.parse_args()
    if wrong := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(wrong))}")
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.seconds = options.seconds or (3.0 if options.quick else 8.0)
    return options


if __name__ == "__main__":
    main()
