"""Whether stacks can be read: tried on a process."""

from __future__ import annotations

import select
import subprocess
import sys
from pathlib import Path

from mpmon.doctor.check import DEADLINE_S, PROC, Check
from mpmon.doctor.tools import answer_of, first_line
from mpmon.probes.rights import why_refused, why_unreadable
from mpmon.probes.stacks import find_py_spy

STACKS = "stacks"
"""Beginning of the names of the checks that decide the exit status."""

CHILD = "import sys; print('ready', flush=True); sys.stdin.read()"
"""A program that waits."""

HIDDEN_RULE = (
    "run mpmon on the host: a sandbox or security module (seccomp, AppArmor, SELinux, gVisor) probably forbids it"
)
"""What to do if no rule that forbids reading is found, since the doctor itself has been asked already."""


def check_own_child(proc: Path) -> Check:
    """Read the stacks of a Python child process as a test."""
    name = f"{STACKS} of a child"
    if proc != PROC:
        return Check(name, ok=None, because=f"not tried: {proc} is not this machine's /proc")
    with subprocess.Popen([sys.executable, "-I", "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            if child.stdout is None or not select.select([child.stdout], [], [], DEADLINE_S)[0]:
                return Check(name, ok=None, because=f"a Python did not start within {DEADLINE_S:g} s")
            return _read_stacks(name, child.pid, proc)
        finally:
            child.kill()


def check_target_stacks(pid: int, proc: Path) -> Check:
    """Read the stacks of the given process as a test."""
    name = f"{STACKS} of pid {pid}"
    if proc != PROC:
        because, _, remedy = why_refused(pid, proc).partition(": ")
        return Check(name, ok=False if because else None, because=because or "not tried", do_this=remedy)
    return _read_stacks(name, pid, proc)


def _read_stacks(name: str, pid: int, proc: Path) -> Check:
    executable = find_py_spy()
    if executable is None:
        return Check(name, ok=False, because="py-spy was not found", do_this="pip install 'py-spy>=0.4.3'")
    status, said = answer_of([executable, "dump", "--nonblocking", "--json", "--pid", str(pid)])
    if status == 0:
        return Check(name, ok=True, because="py-spy reads them")
    because, _, remedy = why_unreadable(pid, proc, otherwise=HIDDEN_RULE).partition(": ")
    return Check(name, ok=False, because=f"{because} (py-spy: {first_line(said)})", do_this=remedy)
