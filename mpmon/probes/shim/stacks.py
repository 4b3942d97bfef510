"""Stacks that a process writes itself on request: `mpmon.shim.dumps`, for processes that py-spy may not read.

The request is a signal, so it is sent only to a process that was started to answer it (`MPMON_DUMP_STACKS` in its
environment, a handler of SIGURG, a file for the answer), and it goes through a pidfd, so it reaches that process or
none.  The answer is read from the file that existed, and belonged to the process, before the signal was sent.
faulthandler identifies threads by their pthread id and gives functions without their class. The main thread comes last;
the others can be told apart only if the process has none but Python threads.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from mpmon.model import Frame, Stack
from mpmon.probes.aside import may_hang
from mpmon.probes.door import FILE, Refused, take
from mpmon.probes.files import Proc
from mpmon.probes.libc import PIDFD_OPEN, PIDFD_SEND_SIGNAL, call
from mpmon.probes.shim.folders import RUNTIME_FOLDER, folders_of
from mpmon.probes.stat import Stat
from mpmon.probes.status import has_signal, status_fields
from mpmon.shim.boot import DUMPS
from mpmon.shim.places import STACKS, VARIABLE, Name

DEADLINE_S = 0.5
QUIET_S = 0.02
"""An answer that has not grown for this long is taken to be complete: a signal handler writes it in one go."""

ANSWER_LIMIT, ENVIRONMENT_LIMIT = 1 << 20, 1 << 18

_THREAD = re.compile(r"^(?:Current thread|Thread) (0x[0-9a-f]+)(?: \[.*\])? \(most recent call first\):$")
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$')


@may_hang
def ask_at(proc: Proc, pid: int, now: float) -> tuple[Stack, ...]:
    """As `ask`, where the files of the process may be on a file system that does not answer."""
    return ask(proc, pid, lambda: now)


def ask(proc: Proc, pid: int, now: Callable[[], float]) -> tuple[Stack, ...]:
    """Stacks of the threads that can be told apart; none if the process was not started to answer, or does not answer.

    Raises:
        Refused: users other than its own could have written the answer; no signal was sent.
    """
    try:
        # First of all: what is read below belongs to the process that this pidfd holds, or the signal reaches nobody.
        pidfd = call(PIDFD_OPEN, pid, 0)
    except OSError:
        return ()
    try:
        file = _take_file(proc, pid)
        try:
            taken_at, length = now(), os.fstat(file).st_size
            call(PIDFD_SEND_SIGNAL, pidfd, signal.SIGURG, 0, 0)
            return parse(_answer(file, length), pid, proc.tids(pid), taken_at)
        finally:
            os.close(file)
    except Refused:
        raise
    except (OSError, ValueError, LookupError):
        return ()
    finally:
        os.close(pidfd)


def parse(answer: str, pid: int, tids: list[int], taken_at: float) -> tuple[Stack, ...]:
    """Rows of what faulthandler wrote; `tids` are the threads of the process, the oldest first."""
    threads: list[tuple[int, list[Frame]]] = []
    for line in answer.splitlines():
        if begins := _THREAD.match(line):
            threads.append((int(begins[1], 16), []))
        elif threads and (frame := _FRAME.match(line)):
            threads[-1][1].append(Frame(function=frame[3], file=frame[1], line=int(frame[2])))
    threads.reverse()
    known = tids if len(tids) == len(threads) else [pid]
    return tuple(
        Stack(
            pid=pid, tid=tid, thread_name="MainThread" if tid == pid else "", taken_at=taken_at, ident=ident,
            frames=tuple(frames), exact=False,
        )
        for tid, (ident, frames) in zip(known, threads, strict=False)
    )  # fmt: skip


def is_stacks(beginning: bytes) -> bool:
    """Whether a file begins like a stacks file; that of a process that was never asked is empty."""
    return not beginning or beginning.startswith((b"Thread 0x", b"Current thread 0x"))


def _take_file(proc: Proc, pid: int) -> int:
    """A descriptor of the file into which a process writes its stacks on request.

    Raises:
        OSError: the process was not started to answer.
        Refused: other users could have written it.
    """
    status, environment = status_fields(proc.text(pid, "status")), _environment(proc, pid)
    if not environment.get(DUMPS) or not has_signal(status.get("SigCgt"), signal.SIGURG):
        raise FileNotFoundError
    user = int(status["Uid"].split()[1])
    name = Name(int(status["NSpid"].split()[-1]), Stat(proc.read(pid, "stat")).start_ticks, _namespace(proc, pid))
    for folder in folders_of(proc, pid, user, environment):
        with suppress(FileNotFoundError):
            return take(folder.below(name.file(STACKS)), FILE.by(user))
    raise FileNotFoundError


def _environment(proc: Proc, pid: int) -> dict[str, str]:
    """The environment variables it was started with that determine where its files are, and whether it answers."""
    entries = proc.text(pid, "environ", limit=ENVIRONMENT_LIMIT).split("\0")
    pairs = (entry.partition("=") for entry in entries)
    return {name: value for name, _, value in pairs if name in (VARIABLE, RUNTIME_FOLDER, DUMPS)}


def _namespace(proc: Proc, pid: int) -> int:
    """The inode of its pid namespace, as in `pid:[4026531836]`."""
    return int(proc.link(pid, "ns", "pid").partition("[")[2].rstrip("]"))


def _answer(file: int, length: int) -> str:
    """What was appended to the file; a stopped process appends nothing."""
    deadline = time.monotonic() + DEADLINE_S
    seen = length
    while time.monotonic() < deadline:
        time.sleep(QUIET_S)
        size = os.fstat(file).st_size
        if size == seen and size > length:
            break
        seen = size
    return os.pread(file, ANSWER_LIMIT, length).decode("utf-8", "replace")
