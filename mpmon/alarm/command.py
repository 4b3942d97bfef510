"""One run of the user's command: in its own session, bounded in time and output, and reaped.

The report is a file in memory, so nobody waits for a command that does not read it.  The command's output is read to the end,
but kept only up to a bound, so the command never waits for mpmon either. A background process that it leaves behind counts as
part of the command for as long as it holds the output open.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import IO

LONGEST_S = 60.0
"""After this time its whole process group is killed."""

MOST_OUTPUT = 1 << 14
"""The first bytes of its output, which are kept."""

MOST_LINES = 50

PART = 1 << 14


class Command:
    """Runs once."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        self._words = words
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._unwanted = False
        self.problem: str | None = None
        """What went wrong, in one sentence."""

    def run(self, report: str) -> list[str]:
        """Run it until it ends or its time is up; returns the lines that it wrote."""
        try:
            self._process = process = self._started(report)
        except (OSError, ValueError) as problem:
            self.problem = f"the command of --on-hang could not be started: {problem}."
            return []
        if self._unwanted:
            self.kill()
        deadline = time.monotonic() + LONGEST_S
        written, ended = _read(process.stdout, deadline) if process.stdout else (b"", True)
        try:
            # It is reaped only after its group is killed, because the group has its number.
            process.wait(max(0.0, deadline - time.monotonic())) if ended else self._overdue()
        except subprocess.TimeoutExpired:
            self._overdue()
        lines = written.decode("utf-8", "backslashreplace").splitlines()[:MOST_LINES]
        if process.returncode and self.problem is None:
            self.problem = f"the command of --on-hang ended with status {_status(process.returncode)}."
        return lines

    def kill(self) -> None:
        """Kill its whole process group; may be called from any thread."""
        self._unwanted = True
        # Until it is reaped, no other process can have its number.
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _overdue(self) -> None:
        self.problem = f"the command of --on-hang did not end within {LONGEST_S:.0f} s and was killed."
        self.kill()
        if self._process:
            self._process.wait()

    def _started(self, report: str) -> subprocess.Popen[bytes]:
        """
        Raises:
            OSError: the limit of processes or files is reached.
        """
        descriptor = os.memfd_create("mpmon report", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "w+b") as paper:
            paper.write(f"{report}\n".encode(errors="backslashreplace"))
            paper.seek(0)
            return subprocess.Popen(
                list(self._words), env=dict(self._environment), stdin=paper, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip


def _read(output: IO[bytes], deadline: float) -> tuple[bytes, bool]:
    """Its output until all writers have closed it or the deadline has passed, and whether the end was reached."""
    kept = b""
    with output:
        door = select.poll()
        door.register(output, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0 and door.poll(left * 1000):
            part = os.read(output.fileno(), PART)
            if not part:
                return kept, True
            kept += part[: MOST_OUTPUT - len(kept)]
    return kept, False


def _status(returned: int) -> int:
    """As a shell reports it."""
    return 128 - returned if returned < 0 else returned
