"""Sending signals to exactly the chosen processes, and reporting the outcome.

A pid alone is not safe: the process may end and its pid be reused between the user's choice and the signal.  So a process is
opened first (pidfd_open(2)), then its start time is compared with that of the row the user saw, and the signal goes to what
was opened: if the start time fits, the pid was this process's at both moments. All are opened before the first gets its
signal, so that the end of one cannot shift another's pid under the list.

The order is that of the list; `mpmon.tui.describe.signals.in_order` proposes it.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

from mpmon.model import Process
from mpmon.probes.identity import Identity
from mpmon.probes.libc import PIDFD_OPEN, PIDFD_SEND_SIGNAL, call

PATIENCE_S = 2.0
"""How long to wait at most for the effect of a signal."""

TICK_S = 0.05
"""Interval between two checks of signalled processes, while the user waits for the outcome."""


class Outcome(NamedTuple):
    """The outcome for one process."""

    process: Process
    problem: str = ""
    """Why the signal was not sent; empty if it was."""
    ended: bool = False
    state: str = ""
    """One letter of proc_pid_stat(5), of one that is still there."""


class SignalSender:
    """Sends signals to processes, each known by its pid and start time."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    def __call__(self, number: int, processes: Sequence[Process]) -> tuple[Outcome, ...]:
        """Send a signal to these processes, one after the other, then wait up to `PATIENCE_S` for its effect.

        Blocks for that time; never raises for what may go wrong with a process, which is an `Outcome.problem`.
        """
        with ExitStack() as opened:
            targets = [_Target(process, self._identity, opened) for process in processes]
            for target in targets:
                target.signal(number)
            _wait([target for target in targets if not target.problem], number)
            return tuple(target.outcome() for target in targets)


class _Target:
    """One process, held open so that it stays the one that was named."""

    def __init__(self, process: Process, identity: Identity, opened: ExitStack) -> None:
        self._process = process
        self._identity = identity
        self._pidfd = -1
        self.problem = self._open(opened)

    def _open(self, opened: ExitStack) -> str:
        try:
            self._pidfd = call(PIDFD_OPEN, self._process.pid, 0)
        except ProcessLookupError:
            return "it has ended"
        except OSError as problem:
            return f"the kernel gives no handle on it (pidfd_open: {problem.strerror}), and its pid alone is not safe"
        opened.callback(os.close, self._pidfd)
        stat = self._identity.stat(self._process)
        if stat is None:
            return "its pid belongs to another process now"
        return "it has ended" if stat.state in "ZX" else ""

    def signal(self, number: int) -> None:
        if self.problem:
            return
        try:
            call(PIDFD_SEND_SIGNAL, self._pidfd, number, 0, 0)
        except ProcessLookupError:
            self.problem = "it has ended"
        except PermissionError:
            self.problem = "not permitted: it belongs to another user"
        except OSError as problem:
            self.problem = f"not sent: {problem.strerror}"

    def has_ended(self) -> bool:
        """A pidfd is readable once its process has ended, collected by its parent or not: pidfd_open(2)."""
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(0))

    def shows(self, number: int) -> bool:
        """Whether the signal has had its effect."""
        if self.has_ended():
            return True
        if number not in (signal.SIGSTOP, signal.SIGCONT):
            return False
        stat = self._identity.stat(self._process)
        return stat is None or (stat.state in "Tt") == (number == signal.SIGSTOP)

    def outcome(self) -> Outcome:
        if self.problem:
            return Outcome(self._process, self.problem)
        stat = None if self.has_ended() else self._identity.stat(self._process)
        return Outcome(self._process, ended=stat is None, state=stat.state if stat else "")


def _wait(targets: list[_Target], number: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while any(not target.shows(number) for target in targets) and time.monotonic() < until:
        time.sleep(TICK_S)
