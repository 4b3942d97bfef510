"""Stacks that a process writes down itself when it is asked: `mpmon.shim.dumps`, for where py-spy may not look.

Asking is a signal, so it is done only where the job was started so that it answers.
What faulthandler writes names threads by their pthread id and functions without their class. The main thread comes last;
the others are told apart only when the process has no thread but Python's.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable

from mpmon.model import Frame, Stack
from mpmon.probes.files import Proc
from mpmon.probes.shim.folders import RUNTIME_FOLDER, folders_of
from mpmon.shim.places import STACKS, VARIABLE, Name

DEADLINE_S = 0.5
QUIET_S = 0.02
"""An answer to which nothing was added for so long is taken to be complete: it is written in one go, by a signal handler."""

ANSWER_LIMIT, ENVIRONMENT_LIMIT = 1 << 20, 1 << 18

_THREAD = re.compile(r"^(?:Current thread|Thread) (0x[0-9a-f]+)(?: \[.*\])? \(most recent call first\):$")
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$')


def ask(proc: Proc, pid: int, now: Callable[[], float]) -> tuple[Stack, ...]:
    """Stacks of the threads that can be told apart; none of a process that was not started so, or does not answer."""
    try:
        path = _file_of(proc, pid)
        if path is None or not _catches(proc, pid, signal.SIGURG):
            return ()
        taken_at, length = now(), os.stat(path).st_size
        os.kill(pid, signal.SIGURG)
        return parse(_answer(path, length), pid, proc.tids(pid), taken_at)
    except (OSError, ValueError, IndexError):
        return ()


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


def _file_of(proc: Proc, pid: int) -> str | None:
    inside = int(_status(proc, pid, "NSpid").split()[-1])
    start_ticks = int(proc.text(pid, "stat").rpartition(")")[2].split()[19])
    for folder in folders_of(proc, pid, os.stat(proc.path(pid)).st_uid, _environment(proc, pid)):
        for file in os.listdir(folder) if os.path.isdir(folder) else ():
            name = Name.parse(file, STACKS)
            if name and (name.pid, name.start_ticks) == (inside, start_ticks):
                return os.path.join(folder, file)
    return None


def _environment(proc: Proc, pid: int) -> dict[str, str]:
    """The two variables that tell where its files lie."""
    entries = proc.text(pid, "environ", limit=ENVIRONMENT_LIMIT).split("\0")
    pairs = (entry.partition("=") for entry in entries)
    return {name: value for name, _, value in pairs if name in (VARIABLE, RUNTIME_FOLDER)}


def _catches(proc: Proc, pid: int, number: int) -> bool:
    return bool(int(_status(proc, pid, "SigCgt"), 16) >> (number - 1) & 1)


def _status(proc: Proc, pid: int, field: str) -> str:
    """A field of proc_pid_status(5); `0` where there is none."""
    lines = (line.partition(":") for line in proc.text(pid, "status").splitlines())
    return next((value.strip() for name, _, value in lines if name == field), "0")


def _answer(path: str, length: int) -> str:
    """What was added to the file; a process that is stopped adds nothing."""
    deadline = time.monotonic() + DEADLINE_S
    seen = length
    while time.monotonic() < deadline:
        time.sleep(QUIET_S)
        size = os.stat(path).st_size
        if size == seen and size > length:
            break
        seen = size
    with open(path, "rb") as file:
        file.seek(length)
        return file.read(ANSWER_LIMIT).decode("utf-8", "replace")
