"""Start a job with the shim on, talk to it, read what it wrote down, end it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, final

import psutil

from mpmon.launch import STARTUP
from mpmon.model import Snapshot
from mpmon.probes.door import Place
from mpmon.probes.files import Proc
from mpmon.probes.processes import ProcessTable
from mpmon.probes.shim import ShimProbe
from mpmon.probes.shim.file import Owner, ShimFile
from mpmon.shim.places import RECORDS, Name
from tests.patience import becomes, ran
from tests.talking import Talking

__all__ = [
    "HOME",
    "PROGRAMS",
    "STARTUP",
    "Job",
    "Look",
    "environment",
    "files",
    "kill_anywhere",
    "look",
    "place",
    "python",
    "queue_of",
    "run",
]

PROGRAMS = Path(__file__).parent / "programs"
HOME = PROGRAMS.parent.parent.parent
SEMAPHORES = Path("/dev/shm/sem.")
"""How names of them begin."""


def environment(folder: Path | str | None, **more: str) -> dict[str, str]:
    """With the shim as `mpmon run` turns it on, or without a folder as if there were no mpmon."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MPMON", "PYTHON"))}
    ours = {"MPMON_RUN_DIR": str(folder), "PYTHONPATH": str(STARTUP)} if folder else {}
    return {**kept, "OMP_NUM_THREADS": "1", **ours, **more}


class Done(NamedTuple):
    """What a job that ended by itself left."""

    status: int
    said: str
    complained: str


def run(program: str, *arguments: str, folder: Path | str | None, python: str = sys.executable, **more: str) -> Done:
    """A job from beginning to end."""
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:
        command = [python, str(PROGRAMS / program), *arguments]
        ended = ran(command, env=environment(folder, TMPDIR=temporary, **more))
    return Done(ended.returncode, ended.stdout, ended.stderr)


def python(code: str, folder: Path | None = None, *, executable: str = sys.executable, **more: str) -> str:
    """What some lines of Python print, which end well and complain of nothing."""
    ended = subprocess.run(
        [executable, "-c", code], env=environment(folder, **more), capture_output=True, text=True, check=False, cwd="/"
    )
    assert ended.returncode == 0, ended.stderr
    assert not ended.stderr
    return ended.stdout.strip()


@final
class Job(Talking):
    """One of `programs/`, with the shim that writes into a folder."""

    def __init__(
        self, program: str, *arguments: str, folder: Path | str | None, python: str = sys.executable, **more: str
    ) -> None:
        super().__init__([python, str(PROGRAMS / program), *arguments], environment(folder, **more))


def place(program: str, mark: str, function: str = "main") -> str:
    """How a marked line of a program is written down: `job.py:16 in main`."""
    lines = (PROGRAMS / program).read_text(encoding="utf-8").splitlines()
    number = next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {mark}"))
    return f"{program}:{number} in {function}"


def files(folder: Path) -> dict[int, ShimFile]:
    """Every file in a folder by pid, read once."""
    found: dict[int, ShimFile] = {}
    for path in sorted(folder.iterdir()):
        name = Name.parse(path.name, RECORDS)
        if name is not None:
            file = found[name.pid] = ShimFile(
                Place(str(path)), name, Owner(name.pid, (os.geteuid(),), time.time() - time.monotonic())
            )
            file.read()
            file.close()
    return found


def queue_of(file: ShimFile, kind: str = "Queue"):
    """The one queue of a kind that a process has."""
    (row,) = [row for row in file.queues if row.kind == kind]
    return row


def kill_anywhere(pid: int) -> None:
    """SIGKILL, wherever it is: semaphores that have a name at that moment lose it, as nobody would take it away later."""
    os.kill(pid, signal.SIGSTOP)
    assert becomes(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    own = _semaphores(pid)
    os.kill(pid, signal.SIGKILL)
    for left in SEMAPHORES.parent.glob(f"{SEMAPHORES.name}*"):
        with contextlib.suppress(FileNotFoundError):  # those of others come and go
            if left.stat().st_ino in own:
                left.unlink()


def _semaphores(pid: int) -> set[int]:
    """Inodes of those it has mapped or open."""
    rows = [line.split(maxsplit=5) for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    files = list(Path(f"/proc/{pid}/fd").iterdir())
    mapped = {int(row[4]) for row in rows if row[5:] and row[5].startswith(str(SEMAPHORES))}
    return mapped | {file.stat().st_ino for file in files if os.readlink(file).startswith(str(SEMAPHORES))}


class Look:
    """Rounds of the probe on a live job, as the sampler asks for them."""

    def __init__(self, pid: int) -> None:
        self._proc = Proc()
        self._table = ProcessTable(self._proc, pid)
        self.probe = ShimProbe(self._proc)

    def round(self) -> Snapshot:
        processes, _ = self._table.look(time.time())
        snapshot = Snapshot(
            taken_at=time.time(), root_pid=self._table.root_pid, root_start_time=self._table.root_start_time,
            processes=processes,
        )  # fmt: skip
        return self.probe.add(snapshot)

    def close(self) -> None:
        self.probe.close()
        self._table.close()
        self._proc.close()


@contextlib.contextmanager
def look(pid: int) -> Iterator[Look]:
    looking = Look(pid)
    try:
        yield looking
    finally:
        looking.close()
