"""One run of the user's command: in a session of its own, bounded in time and output, its end collected.

The report is a file in memory, so nobody waits for a command that does not read it.  What the command writes is read to its
end, and kept only up to a bound, so that it never waits for mpmon either.
It may leave something behind that goes on: as long as that holds the output, it counts as the command.
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
"""Then all of its process group is killed."""

MOST_OUTPUT = 1 << 14
"""Bytes of its output that are kept, the first ones."""

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
        """To its end, or to the end of its time; the lines that it wrote."""
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
            # Its end is not collected before the group is killed, which has its number.
            process.wait(max(0.0, deadline - time.monotonic())) if ended else self._overdue()
        except subprocess.TimeoutExpired:
            self._overdue()
        lines = written.decode("utf-8", "backslashreplace").splitlines()[:MOST_LINES]
        if process.returncode and self.problem is None:
            self.problem = f"the command of --on-hang ended with status {_status(process.returncode)}."
        return lines

    def kill(self) -> None:
        """End it with all of its process group; from any thread."""
        self._unwanted = True
        # As long as its end is not collected, nobody else has its number.
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
            OSError: no more processes or files may be had.
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
    """What it writes until nobody can write any more, or until the deadline; whether it came to the end."""
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
    """As a shell tells it."""
    return 128 - returned if returned < 0 else returned
