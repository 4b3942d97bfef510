"""`mpmon doctor [PID]`: what can be read here, what cannot, why, and the remedy."""

from __future__ import annotations

import argparse

from mpmon.commands import options


def run(arguments: list[str]) -> int:
    """Print the checks; the exit status is that of the worst."""
    given = parser().parse_args(arguments)
    from mpmon import doctor
    from mpmon.commands import live

    live.check_machine()

    checks = doctor.checkup(given.pid)
    print(doctor.render(checks))
    return doctor.exit_status(checks)


def parser() -> argparse.ArgumentParser:
    """What this command takes."""
    made = options.Parser(prog="mpmon doctor", description="What can be read here, what cannot, why, and the remedy.")
    made.add_argument("pid", nargs="?", type=options.pid, metavar="PID", help="also check this process")
    return made
