"""Starting a job with the queue shim on, and standing between it and whoever signals mpmon meanwhile.

Who starts a job by way of mpmon knows only mpmon's pid, so what is sent there is meant for the job, as with the init of a
container.
A key like Ctrl-C however makes the kernel signal every process of the terminal's foreground group: the job has that already.
The two differ by the sender alone, which only sigwaitinfo(2) tells, and that needs signals which no thread lets through.  So
all of mpmon blocks them, and one thread takes each and does what it would have done.
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
"""Not taken: what nobody can take, what tells of children, and faults.

Who blocks SIGTTIN or SIGTTOU gets errors from the terminal, or draws on it, where it had to stop (termios(3)).
"""

KERNELS = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGWINCH, signal.SIGXCPU})
"""Not passed on when the kernel sends them: to the whole foreground group (termios(3), ioctl_tty(2)), or about the CPU time
that mpmon itself has used.  Its SIGHUP is not among them: it goes to the leader of the session, which mpmon may be.
"""

MINDED = frozenset({signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH})
"""The screen has handlers for these, and Ctrl-Z stops mpmon too."""

IGNORED_BY_PYTHON = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
"""Whatever they did before its start, which nothing tells any more: `SigIgn` of proc_pid_status(5) has what Python did, and the
parent may be another one than who called execve(2).  subprocess.Popen gives them back their usual effect in a child.
"""

RESTORE = (
    "import os, signal, sys; signal.pthread_sigmask(signal.SIG_SETMASK, map(int, sys.argv[1].split())); "
    "[signal.signal(number, signal.SIG_DFL) for number in (signal.SIGPIPE, signal.SIGXFSZ)]; "
    "os.execv(sys.argv[2], sys.argv[2:])"
)
"""Becomes another program with these signals blocked and no others."""


class CannotStart(MpmonError):
    """The command does not begin; with the status a shell gives for it."""

    def __init__(self, message: str, remedy: str, status: int) -> None:
        super().__init__(message, remedy)
        self.exit_status = status


class Launched:
    """A job of the user's that mpmon has started. mpmon may end before it, it goes on."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | None) -> None:
        """With `output`, all it writes goes there, and it reads nothing.

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
        """Its exit status when it has ended, as a shell tells it: 128 and the number of a signal; `None` after the time."""
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        return 128 - status if status < 0 else status

    def with_signals_of_before(self, command: Sequence[str]) -> list[str]:
        """The words that run a program, named by its path, with the signals blocked that were when mpmon began."""
        blocked = " ".join(str(int(number)) for number in self._blocked_before)
        return [sys.executable, "-I", "-S", "-c", RESTORE, blocked, *command]

    def _let_through(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked_before)

    def _take(self, taken: set[int]) -> None:
        """Take signals for ever, one after the other."""
        while True:
            came = signal.sigwaitinfo(taken)
            if _is_for_the_job(came):
                self._pass_on(came.si_signo)
            if came.si_signo in MINDED:
                _mind(came.si_signo)

    def _pass_on(self, number: int) -> None:
        # It has ended, or become another user's.
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
    """Where the shim's files of the job lie, which is made when it is missing.

    Raises:
        OSError: it cannot be made, or is somebody else's.
        Silent: its file system does not answer.
    """
    named = os.environ.get(VARIABLE)
    named = os.path.abspath(named) if named else None
    usual = default_folders(os.geteuid(), os.environ.get("XDG_RUNTIME_DIR"))
    return os.path.abspath(asked([named] if named else usual, run_folder, named))


def _wait_for(program: str) -> None:
    """Have its file system answer, while Ctrl-C still ends mpmon: whoever starts a program waits for it in the kernel.

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
    """By who sent it: sigaction(2) gives codes above 0 to the kernel, the others to processes that call kill(2) and its like."""
    return came.si_signo not in KERNELS if came.si_code > 0 else came.si_pid != os.getpid()


def _mind(number: int) -> None:
    """Have mpmon do what it does at this signal, which this thread has taken."""
    if number == signal.SIGTSTP and signal.getsignal(number) is signal.SIG_DFL:
        # Let through here for once; whether it stops a process is the kernel's to say (orphaned groups, signal(7)).
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
