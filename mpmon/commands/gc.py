"""`mpmon gc`: remove the shim's files of dead jobs."""

from __future__ import annotations

import argparse
import os

from mpmon.commands import options
from mpmon.errors import UsageError, tell
from mpmon.printable import written_out


def run(arguments: list[str]) -> int:
    """Remove the files and list them."""
    given = parser().parse_args(arguments)
    from mpmon.commands import live
    from mpmon.probes.own import asked
    from mpmon.probes.shim import clean, usual_folders
    from mpmon.shim.places import VARIABLE

    live.check_machine()  # Without it, mpmon cannot tell which processes have ended.
    folders = [os.path.abspath(folder) for folder in given.folders]
    if lacking := [folder for folder in folders if not asked([folder], os.path.isdir, folder)]:
        raise UsageError(f"there is no folder {lacking[0]}.", "Give the one MPMON_RUN_DIR of the job pointed to.")
    named = [os.path.abspath(folder) for folder in (os.environ.get(VARIABLE), *folders) if folder]
    cleaned: list[str] = []
    for folder in dict.fromkeys([*usual_folders(), *named]):
        if why := _why_not(folder, was_named=folder in named):
            tell(f"{folder} is not cleaned up: {why}")
        else:
            cleaned.append(folder)
    removed = asked(cleaned, clean, cleaned, keep_newest=not given.all)
    for file in removed:
        print(f"{written_out(file.path)}  {file.bytes >> 10} KiB, of pid {file.pid}")
    total = sum(file.bytes for file in removed)
    print(f"{len(removed)} file{'' if len(removed) == 1 else 's'} removed, {total >> 10} KiB")
    return 0


def _why_not(folder: str, *, was_named: bool) -> str:
    """Why a folder is not cleaned up; empty if it is.

    Raises:
        MpmonError: the user has named it.
    """
    from mpmon.probes.own import Silent, asked
    from mpmon.probes.shim import refusal

    try:
        why = asked([folder], refusal, folder)
    except Silent:
        if was_named:
            raise
        return "its file system does not answer"
    if why and was_named:
        raise UsageError(
            f"{folder} is not cleaned up: {why}.",
            "Give a folder that belongs to one user and that no one else may write to.",
        )
    return why


def parser() -> argparse.ArgumentParser:
    """What this command takes."""
    made = options.Parser(
        prog="mpmon gc", allow_abbrev=False,
        description="Remove the shim's files of jobs that have ended. The files of the latest job are kept for "
        "inspection.",
    )  # fmt: skip
    made.add_argument("folders", nargs="*", metavar="FOLDER", help="an additional folder: MPMON_RUN_DIR of a job")
    made.add_argument("--all", action="store_true", help="also remove the files of the latest job")
    return made
