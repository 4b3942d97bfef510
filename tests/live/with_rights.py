"""Look at a process with fewer rights than one has: `python -m tests.live.with_rights RIGHTS PID SECONDS PY_SPY`.

Prints one line of JSON: the report, and the same as text.
What is imported on the way may not be readable any more with fewer rights, so one round is made before, and what only a finding
needs is imported.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import sys
from collections.abc import Callable

from mpmon.diagnosis.findings import Observation
from mpmon.probes.files import Proc
from mpmon.probes.rights import CAP_SYS_PTRACE
from mpmon.probes.stacks import StackProbe
from mpmon.reports import document, text
from mpmon.session.sampler import Sampler
from mpmon.session.watch import LiveWatch

NOBODY = 65534
"""A user that every machine has."""

PR_CAPBSET_DROP = 24
_VERSION_3 = 0x20080522
"""capget(2), linux/capability.h."""


def become_nobody() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def drop_ptrace() -> None:
    """Root without CAP_SYS_PTRACE, as in most containers; nor does a program it starts get it back."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    libc.prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE, 0, 0, 0)
    libc.capget(header, sets)
    for kind in range(3):
        sets[kind] &= ~(1 << CAP_SYS_PTRACE)
    if libc.capset(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capset")


RIGHTS: dict[str, Callable[[], None]] = {"nobody": become_nobody, "no-ptrace": drop_ptrace, "same": lambda: None}


def look(pid: int, seconds: float, py_spy: str) -> Observation:
    """As `mpmon PID --once` does."""

    def make(now: Callable[[], float]) -> Sampler:
        probe = StackProbe(Proc(), executable=py_spy)
        return Sampler(Proc(), pid, now=now, host="host", eager=True, stack_probe=probe)

    watched = LiveWatch(make, interval=0.5)
    last: Observation | None = None
    for last in watched:
        if last.diagnosis.settled or last.diagnosis.findings or last.watched_s >= seconds:
            watched.stop()
    assert last is not None
    return last


if __name__ == "__main__":
    rights, root, longest, executable = sys.argv[1:]
    look(int(root), 0.1, executable)
    importlib.import_module("mpmon.probes.native")
    RIGHTS[rights]()
    seen = look(int(root), float(longest), executable)
    print(json.dumps({"report": json.loads(document.render(seen)), "text": text.render(seen)}))
