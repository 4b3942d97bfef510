"""Another Python of ours: the supervisor of the demo and its scenes, the screens of `serve`, the helper for the GPU driver.

`-m` and `-c` let a Python import from the folder it is called in, where anybody may have put a `socket.py`, and
PYTHONPATH comes before the standard library.  So it is started isolated (`-I`) with this file as its script; that adds the
folders in which the Python that asked for it finds its packages, behind the standard library, and runs the module as `-m`
would.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15
"""Of <linux/prctl.h>."""

FILE = os.path.abspath(__file__)
_HOUSE = os.path.dirname(os.path.dirname(FILE))
_STANDARD = os.path.dirname(os.__file__)


def command(module: str, *arguments: str, bare: bool = False) -> list[str]:
    """The words that run a module as a program.

    Args:
        module: By its full name, as `-m` takes it.
        arguments: Those of the module.
        bare: Without the start-up code of installed packages (`-S`).
    """
    options = ["-I", "-S"] if bare else ["-I"]
    return [sys.executable, *options, FILE, module, *arguments, os.pathsep.join(_folders())]


def end_with(parent: int, name: bytes) -> None:
    """Have the kernel end this process with its parent, also when a thread of it is stuck; be told from the job by this name."""
    import ctypes
    import signal

    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    libc.prctl(PR_SET_NAME, name)
    if os.getppid() != parent:
        os._exit(0)


def words_of(cmdline: Sequence[str]) -> list[str]:
    """The module that such a process runs, and its arguments; none of another process."""
    for at, word in enumerate(cmdline[:4]):
        if word.endswith("/mpmon/start.py"):
            return list(cmdline[at + 1 : -1])
    return []


def _folders() -> list[str]:
    """Where this Python finds packages, in its order; never the present folder, unless mpmon is there."""
    here = _present_folder()
    found = [folder for folder in sys.path if os.path.isabs(folder) and folder != here and not _is_standard(folder)]
    return found if _HOUSE in found else [_HOUSE, *found]


def _present_folder() -> str:
    """Empty where it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _is_standard(folder: str) -> bool:
    """Every Python has these before all others."""
    return folder in (_STANDARD, f"{_STANDARD}/lib-dynload") or folder.endswith(".zip")


def _run() -> None:
    """What the words of `command` come to, in the Python that is started."""
    import runpy

    file, module, *arguments, folders = sys.argv
    installed = (at for at, folder in enumerate(sys.path) if folder.endswith("-packages"))
    at = next(installed, len(sys.path))
    sys.path[at:at] = folders.split(os.pathsep)
    if sys.flags.no_site:
        # msgspec does without it, and a helper is for hours: with all that it imports it takes 1.5 MiB.
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]  as the import system has it
    sys.argv = [file, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _run()
