"""Failures that end the program: one sentence, the remedy, the exit status. `mpmon.__main__` alone prints them.

Sentences contain paths and names as they are: `tell`, which prints all messages outside mpmon's regular output, makes one
line of them without terminal control characters.
"""

from __future__ import annotations

import errno
import sys

from mpmon.printable import in_bounds, written_out

LONGEST = 2000
"""Characters of one message."""


class MpmonError(Exception):
    """A failure to tell the user about.

    The message is one sentence about what went wrong; `remedy` says what to do.
    """

    exit_status = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class LeavesAtOnce(BaseException):
    """The program ends with this exit status without the end of the interpreter, which would wait for a thread that is stuck."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


REFUSALS = {
    errno.EMFILE: ("mpmon may not open any more files.", "Raise the limit: ulimit -n 1024"),
    errno.ENFILE: (
        "this machine cannot open any more files.",
        "End the process that has so many open; lsof shows which.",
    ),
    errno.ENOMEM: ("there is not enough memory.", "Free some, or raise the limit: ulimit -v"),
    errno.EAGAIN: ("mpmon may not start any more processes or threads.", "Raise the limit: ulimit -u"),
}
"""Refusals of the machine or of a limit, by error number (errno(3)); the last one is of fork(2) and clone(2)."""


PACKAGES = {"pynvml": "nvidia-ml-py"}
"""Package names that differ from their module's name, by module."""


class UsageError(MpmonError):
    """The command line does not make sense."""

    exit_status = 2


class CannotTell(MpmonError):
    """No statement is possible: the process is gone or unreadable, or there is no GPU."""

    exit_status = 4


def refusal(problem: Exception) -> MpmonError | None:
    """Translates an unexpected exception into a failure if the machine refused something or a package is missing; `None` for
    a defect of mpmon.
    """
    if isinstance(problem, ModuleNotFoundError) and (missing := _package(problem.name or "")):
        return MpmonError(
            f"the package {missing}, which mpmon needs, is not installed for {sys.executable}.",
            f"Install it: {sys.executable} -m pip install {missing}",
        )
    number = problem.errno if isinstance(problem, OSError) else None
    if isinstance(problem, MemoryError):
        number = errno.ENOMEM
    if isinstance(problem, RuntimeError) and str(problem) == "can't start new thread":
        number = errno.EAGAIN
    return MpmonError(*REFUSALS[number]) if number in REFUSALS else None


def _package(module: str) -> str:
    """The package to install for a module; empty if it comes with Python or with mpmon."""
    top = module.partition(".")[0]
    return "" if top in sys.stdlib_module_names or top == "mpmon" else PACKAGES.get(top, top)


def in_words(problem: Exception) -> str:
    """The problem in sentences: a failure with its remedy, or a defect with its name."""
    known = problem if isinstance(problem, MpmonError) else refusal(problem)
    if known is None:
        return f"this is a defect of mpmon ({type(problem).__name__}: {problem})."
    said = [str(known), known.remedy[:1].upper() + known.remedy[1:]]
    return " ".join(part if part.endswith((".", "!", "?")) else f"{part}." for part in said if part)


def tell(words: str) -> None:
    """A line for the user on standard error."""
    print(f"mpmon: {in_bounds(written_out(words), LONGEST)}", file=sys.stderr, flush=True)
