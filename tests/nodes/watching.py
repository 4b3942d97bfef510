"""mpmon as it is run on the front of a lab, and what it is to say of the job of `train.py`."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

from tests.nodes.lab import FRONT, Lab
from tests.patience import patience, rest_of

TRAIN = Path(__file__).parent / "train.py"
MPMON = (sys.executable, "-m", "mpmon")


def stuck_at() -> int:
    return next(number for number, line in enumerate(TRAIN.read_text().splitlines(), 1) if "# STUCK" in line)


def blames_rank_3(report: str) -> None:
    """Itself and its line, its host, and nobody else."""
    first = report.splitlines()[1]
    assert re.search(r"\brank 3\b", first), report
    assert f"train.py:{stuck_at()}" in first, report
    assert re.search(r"rank 3 \(.*\) blocks the others", report), report
    assert re.search(r"\bh2\b", report), report
    assert report.count("cause: ") == 1, report


def agents(lab: Lab, *hosts: str) -> list[str]:
    """Where there are some."""
    return [host for host in hosts if lab.run(host, "pgrep", "-f", "[a]gent --stdio", check=False).returncode == 0]


class Front:
    """mpmon that goes on until it is told to end; what it says, line by line."""

    def __init__(self, lab: Lab, *arguments: str) -> None:
        self._process = lab.start(FRONT, [*MPMON, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._heard = {"stdout": b"", "stderr": b""}

    def __enter__(self) -> Front:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for name in self._heard:
            getattr(self._process, name).close()

    def hear(self, stream: str, words: str) -> str:
        """The next line with these words."""
        left = patience()
        while True:
            line, feed, rest = self._heard[stream].partition(b"\n")
            if feed:
                self._heard[stream] = rest
                if words in line.decode():
                    return line.decode()
                continue
            files = {getattr(self._process, name).fileno(): name for name in self._heard}
            pause = next(left, None)
            assert pause is not None, f"mpmon does not say: {words}"
            ready, _, _ = select.select(list(files), [], [], pause)
            for descriptor in ready:
                chunk = os.read(descriptor, 1 << 16)
                assert chunk, f"mpmon ended before it said: {words}; {self._heard}"
                self._heard[files[descriptor]] += chunk

    def ended(self) -> int:
        """Its status, when it has ended by itself."""
        rest_of(self._process)
        return self._process.returncode

    def interrupt(self) -> int:
        """As Ctrl-C does."""
        os.killpg(self._process.pid, signal.SIGINT)
        rest_of(self._process)
        return self._process.returncode
