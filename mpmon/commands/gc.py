"""`mpmon gc`: remove what dead jobs left of the shim's files."""

from __future__ import annotations

import argparse
import os

from mpmon.commands import options
from mpmon.errors import UsageError, tell
from mpmon.printable import written_out


def run(arguments: list[str]) -> int:
    """Remove and tell."""
    given = parser().parse_args(arguments)
    from mpmon.probes.shim import clean, refusal, usual_folders
    from mpmon.shim.places import VARIABLE

    if lacking := [folder for folder in given.folders if not os.path.isdir(folder)]:
        raise UsageError(f"there is no folder {lacking[0]}.", "Give the one MPMON_RUN_DIR of the job pointed to.")
    named = [folder for folder in (os.environ.get(VARIABLE), *given.folders) if folder]
    for folder in dict.fromkeys([*usual_folders(), *named]):
        if why := refusal(folder):
            _leave_alone(folder, why, was_named=folder in named)
    removed = clean([*usual_folders(), *named], keep_newest=not given.all)
    for file in removed:
        print(f"{written_out(file.path)}  {file.bytes >> 10} KiB, of pid {file.pid}")
    total = sum(file.bytes for file in removed)
    print(f"{len(removed)} file{'' if len(removed) == 1 else 's'} removed, {total >> 10} KiB")
    return 0


def _leave_alone(folder: str, why: str, *, was_named: bool) -> None:
    if was_named:
        raise UsageError(
            f"{folder} is not cleaned up: {why}.", "Give a folder of one user, to which nobody else may write."
        )
    tell(f"{folder} is not cleaned up: {why}")


def parser() -> argparse.ArgumentParser:
    """What this command takes."""
    made = options.Parser(
        prog="mpmon gc", allow_abbrev=False,
        description="Remove the shim's files of jobs that have ended. Those of the job that began last are kept, to be "
        "looked at.",
    )  # fmt: skip
    made.add_argument(
        "folders", nargs="*", metavar="FOLDER", help="look there too: where MPMON_RUN_DIR of a job pointed"
    )
    made.add_argument("--all", action="store_true", help="remove those of the last job too")
    return made
