"""All variables a process was started with, on the user's request.

They may hold secrets: they go to the user's screen and are kept nowhere, neither in snapshots nor in recordings
(`mpmon.probes.processes.traits.KEPT_ENVIRONMENT` names the few that are).
"""

from __future__ import annotations

from typing import NamedTuple

from mpmon.probes.identity import Identity
from mpmon.probes.standstill import patiently

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mpmon.model import Process
    from mpmon.probes.files import Proc

LIMIT = 2 << 20
"""Most bytes read. The arguments and the environment of a process share a quarter of its stack limit, 2 MiB of the
usual 8 MiB (execve(2)).
"""


class Environment(NamedTuple):
    """Variables by name, and what is wrong with them."""

    variables: dict[str, str]
    problem: str = ""
    """Why there are none, or not all; empty if all is well."""


class EnvironmentReader:
    """Reads proc_pid_environ(5): the variables as they were when the program started, not what it has set since."""

    def __init__(self, proc: Proc, identity: Identity) -> None:
        self._proc = proc
        self._identity = identity

    def __call__(self, process: Process) -> Environment:
        """The variables of this very process. Takes seconds while its memory map is locked: call it in a separate thread."""
        try:
            text = patiently(lambda: self._proc.read(process.pid, "environ", limit=LIMIT))
        except PermissionError:
            return Environment({}, "cannot be read: it belongs to another user or is not dumpable")
        except OSError as problem:
            return Environment({}, f"cannot be read: {(problem.strerror or 'unreadable').lower()}")
        # Checked after reading: if it is still the same process, it has had the pid all the time, so the data is its
        # own.
        if self._identity.stat(process) is None:
            return Environment({}, "it has ended")
        return Environment(variables(text), f"cut after {LIMIT >> 20} MiB" if len(text) >= LIMIT else "")


def variables(text: bytes) -> dict[str, str]:
    """Variables by name; of a duplicate name the first, as getenv(3) finds it."""
    found: dict[str, str] = {}
    for entry in text.decode("utf-8", "replace").split("\0"):
        name, equals, value = entry.partition("=")
        if equals and name:
            found.setdefault(name, value)
    return found
