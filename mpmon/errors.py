"""Failures that end the program: one sentence, the remedy, the exit status. `mpmon.__main__` alone prints them.

Paths, names and words of the machine stand in sentences as they are: `tell`, through which goes whatever mpmon says beside
its output, makes one line of them that does nothing to a terminal.
"""

from __future__ import annotations

import errno
import sys

from mpmon.printable import in_bounds, written_out

LONGEST = 2000
"""Letters of what is said at once."""


class MpmonError(Exception):
    """A failure to tell the user about.

    The message is one sentence about what went wrong; `remedy` says what to do.
    """

    exit_status = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


REFUSALS = {
    errno.EMFILE: ("no more files may be opened here.", "Raise the limit: ulimit -n 1024"),
    errno.ENFILE: ("the machine can open no more files.", "End what has so many open; lsof shows it."),
    errno.ENOMEM: ("there is not enough memory.", "Free some, or raise the limit: ulimit -v"),
    errno.EAGAIN: ("no more processes and threads may be started here.", "Raise the limit: ulimit -u"),
}
"""What the machine or a limit refuses, by the number of the error (errno(3)): of fork(2) and clone(2) the last one."""


PACKAGES = {"pynvml": "nvidia-ml-py"}
"""By the module, those of another name."""


class UsageError(MpmonError):
    """The command line does not make sense."""

    exit_status = 2


class CannotTell(MpmonError):
    """Nothing can be said: the process is gone, or not ours to read; or there is no GPU."""

    exit_status = 4


def refusal(problem: Exception) -> MpmonError | None:
    """The failure that a refusal of the machine is, or a package that is missing, of an exception that nobody expected; `None`
    for a defect of mpmon.
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
    """What has to be installed for a module; empty for one that comes with Python or with mpmon itself."""
    top = module.partition(".")[0]
    return "" if top in sys.stdlib_module_names or top == "mpmon" else PACKAGES.get(top, top)


def in_words(problem: Exception) -> str:
    """What went wrong, in sentences: a failure with its remedy, or a defect by its name."""
    known = problem if isinstance(problem, MpmonError) else refusal(problem)
    if known is None:
        return f"this is a defect of mpmon ({type(problem).__name__}: {problem})."
    said = [str(known), known.remedy[:1].upper() + known.remedy[1:]]
    return " ".join(part if part.endswith((".", "!", "?")) else f"{part}." for part in said if part)


def tell(words: str) -> None:
    """A line for the user on standard error."""
    print(f"mpmon: {in_bounds(written_out(words), LONGEST)}", file=sys.stderr, flush=True)
