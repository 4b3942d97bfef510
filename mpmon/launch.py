"""Starting a job with the queue shim on, and forwarding signals to it.

A program that starts a job through mpmon knows only mpmon's pid, so signals sent there are meant for the job, as with the
init of a container. But for a key such as Ctrl-C, the kernel signals every process of the terminal's foreground group: the
job already has that signal. The two differ only in the sender, which only sigwaitinfo(2) reports, and that requires signals
to be blocked in all threads. So mpmon blocks them everywhere, and one thread takes each signal and carries out its effect.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from mpmon.errors import MpmonError
from mpmon.probes.own import Silent, asked
from mpmon.shim.boot import DUMPS
from mpmon.shim.places import VARIABLE, default_folders, run_folder

STARTUP = Path(__file__).parent / "shim" / "startup"
"""The folder whose `sitecustomize` turns the shim on."""

LEFT = frozenset({
    signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGTTIN, signal.SIGTTOU,
    signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS,
})  # fmt: skip
"""Not taken: signals that cannot be blocked, SIGCHLD, and faults.

A process that blocks SIGTTIN or SIGTTOU gets errors from the terminal, or draws on it, instead of being stopped (termios(3)).
"""

KERNELS = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGWINCH, signal.SIGXCPU})
"""Not passed on when the kernel sends them: to the whole foreground group (termios(3), ioctl_tty(2)), or about the CPU time
that mpmon itself has used.  Its SIGHUP is not among them: it goes to the leader of the session, which mpmon may be.
"""

MINDED = frozenset({signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH})
"""Signals that mpmon itself also reacts to: the screen has handlers for them, and Ctrl-Z stops mpmon too."""

IGNORED_BY_PYTHON = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
"""Whatever they did before its start, which nothing tells any more: `SigIgn` of proc_pid_status(5) has what Python did, and the
parent may be another one than who called execve(2).  subprocess.Popen gives them back their usual effect in a child.
"""

RESTORE = (
    "import os, signal, sys; signal.pthread_sigmask(signal.SIG_SETMASK, map(int, sys.argv[1].split())); "
    "[signal.signal(number, signal.SIG_DFL) for number in (signal.SIGPIPE, signal.SIGXFSZ)]; "
    "os.execv(sys.argv[2], sys.argv[2:])"
)
"""Executes another program with exactly these signals blocked."""


class CannotStart(MpmonError):
    """The command cannot be started; has the exit status that a shell would give."""

    def __init__(self, message: str, remedy: str, status: int) -> None:
        super().__init__(message, remedy)
        self.exit_status = status


class Launched:
    """A user's job started by mpmon. It continues if mpmon ends first."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | None) -> None:
        """With `output`, everything it writes goes there, and its standard input is empty.

        Raises:
            CannotStart: there is no such program.
        """
        _wait_for(command[0])
        taken = {number for number in signal.valid_signals() - LEFT if _counts(number)}
        self._blocked_before = signal.pthread_sigmask(signal.SIG_BLOCK, taken)
        try:
            self._process = subprocess.Popen(
                list(command), env=dict(environment), stdin=subprocess.DEVNULL if output else None,
                stdout=output, stderr=subprocess.STDOUT if output else None,
                preexec_fn=self._let_through,  # noqa: PLW1509  there is one thread yet
            )  # fmt: skip
        except OSError as problem:
            self._let_through()
            raise _refusal(command[0], problem) from problem
        threading.Thread(target=self._take, args=(taken,), name="mpmon signals", daemon=True).start()

    @property
    def pid(self) -> int:
        """Of its first process."""
        return self._process.pid

    def wait(self, seconds: float | None = None) -> int | None:
        """Its exit status when it has ended, as a shell reports it: 128 and the number of a signal; `None` after the time."""
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        return 128 - status if status < 0 else status

    def with_signals_of_before(self, command: Sequence[str]) -> list[str]:
        """The command line that runs a program, given by its path, with the signal mask that mpmon was started with."""
        blocked = " ".join(str(int(number)) for number in self._blocked_before)
        return [sys.executable, "-I", "-S", "-c", RESTORE, blocked, *command]

    def _let_through(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked_before)

    def _take(self, taken: set[int]) -> None:
        """Take signals forever, one after the other."""
        while True:
            came = signal.sigwaitinfo(taken)
            if _is_for_the_job(came):
                self._pass_on(came.si_signo)
            if came.si_signo in MINDED:
                _mind(came.si_signo)

    def _pass_on(self, number: int) -> None:
        # It has ended, or now belongs to another user.
        with contextlib.suppress(OSError):
            self._process.send_signal(number)


def environment(given: Mapping[str, str], *, dump_stacks: bool) -> dict[str, str]:
    """The variables with which every Python of the job turns the shim on.

    Raises:
        OSError, Silent: there is no place for its files.
    """
    path = [str(STARTUP), *filter(None, [given.get("PYTHONPATH", "").removeprefix(f"{STARTUP}{os.pathsep}")])]
    made = {**given, VARIABLE: shim_folder(), "PYTHONPATH": os.pathsep.join(path)}
    return {**made, DUMPS: "1"} if dump_stacks else made


def without_shim(given: Mapping[str, str]) -> dict[str, str]:
    """The variables with which no Python of the job turns the shim on, also below another `mpmon run`."""
    return {name: value for name, value in given.items() if name != VARIABLE}


def shim_folder() -> str:
    """The folder of the shim's files of the job, created if missing.

    Raises:
        OSError: it cannot be made, or is somebody else's.
        Silent: its file system does not answer.
    """
    named = os.environ.get(VARIABLE)
    named = os.path.abspath(named) if named else None
    usual = default_folders(os.geteuid(), os.environ.get("XDG_RUNTIME_DIR"))
    return os.path.abspath(asked([named] if named else usual, run_folder, named))


def _wait_for(program: str) -> None:
    """Wait until its file system answers, while Ctrl-C still ends mpmon: starting a program from it would block in the kernel.

    Raises:
        CannotStart: that does not answer.
    """
    folders = [os.path.dirname(program)] if "/" in program else os.get_exec_path()
    paths = [os.path.abspath(os.path.join(folder, os.path.basename(program))) for folder in folders]
    try:
        asked(paths, _first, paths)
    except Silent as problem:
        raise CannotStart(
            f"{program} cannot be started: the file system of {problem.path} does not answer", problem.remedy, 126
        ) from problem


def _first(paths: Sequence[str]) -> str | None:
    return next(filter(os.path.exists, paths), None)


def _counts(number: int) -> bool:
    """It is not ignored, which the job inherits (nohup, a job in the background)."""
    return number in IGNORED_BY_PYTHON or signal.getsignal(number) is not signal.SIG_IGN


def _is_for_the_job(came: signal.struct_siginfo) -> bool:
    """Decided by the sender: codes above 0 are the kernel's, others come from processes that call kill(2) and the like
    (sigaction(2)).
    """
    return came.si_signo not in KERNELS if came.si_code > 0 else came.si_pid != os.getpid()


def _mind(number: int) -> None:
    """Make mpmon react to this signal, which this thread has taken."""
    if number == signal.SIGTSTP and signal.getsignal(number) is signal.SIG_DFL:
        # Unblocked here for a moment; whether it stops the process is up to the kernel (orphaned groups, signal(7)).
        signal.pthread_kill(threading.get_ident(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    else:
        _thread.interrupt_main(signal.Signals(number))


def _refusal(program: str, problem: OSError) -> CannotStart:
    words = (problem.strerror or "unknown reason").lower()
    if isinstance(problem, FileNotFoundError):
        return CannotStart(f"{program} cannot be started: {words}", "Is it on the PATH?", 127)
    return CannotStart(f"{program} cannot be started: {words}", "Check the file and its rights.", 126)
