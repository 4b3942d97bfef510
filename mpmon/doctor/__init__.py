"""What can be read here and what cannot, why, and what to do about it.

Each check asks one question and answers it in a line; none of them changes anything or fails the program.

Modules:
`check` is one answer; `tools`, `rights`, `process` and `machine` are the questions, in the order of the report; `stacks`
tries to read stacks.  `gpu` is separate: it tests mpmon's assumptions about a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mpmon.doctor.check import PROC, Check
from mpmon.doctor.machine import checks_of_machine
from mpmon.doctor.process import checks_of_process
from mpmon.doctor.rights import checks_of_rights
from mpmon.doctor.stacks import STACKS
from mpmon.doctor.tools import checks_of_tools
from mpmon.printable import written_out
from mpmon.probes.standstill import LeftBehind, patiently

__all__ = ["Check", "checkup", "exit_status", "render"]


def checkup(pid: int | None, proc: Path = PROC) -> tuple[Check, ...]:
    """All checks of this machine and, with a pid, of that process."""
    return (*checks_of_tools(), *checks_of_rights(proc), *_of_process(pid, proc), *checks_of_machine(proc))


def _of_process(pid: int | None, proc: Path) -> tuple[Check, ...]:
    try:
        return patiently(lambda: tuple(checks_of_process(pid, proc)))
    except LeftBehind as problem:
        remedy = "check the mounts of the job (mpmon explain mount-silent): in execve(2), it waits for one"
        return (Check(f"{STACKS} of pid {pid}", ok=False, because=problem.strerror or "", do_this=remedy),)


def exit_status(checks: Sequence[Check]) -> int:
    """0 if stacks can be read: of the given process, else of a child of mpmon."""
    deciding = [check for check in checks if check.name.startswith(STACKS)]
    return 0 if deciding and deciding[-1].ok else 1


def render(checks: Sequence[Check]) -> str:
    """Plain text: a line per check, and one more with the remedy."""
    width = max((len(check.name) for check in checks), default=0)
    lines: list[str] = []
    for check in checks:
        word = {True: "ok", False: "problem", None: "note"}[check.ok]
        lines.append(f"{word:<8} {check.name:<{width}}  {check.because}")
        if check.do_this:
            lines.append(f"{'':<8} {'':<{width}}  do: {check.do_this}")
    return "\n".join(map(written_out, lines))
