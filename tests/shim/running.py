"""Start a job with the shim on, talk to it, read what it wrote down, end it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, Queue
from typing import NamedTuple, final

import psutil

from mpmon.launch import STARTUP
from mpmon.model import Snapshot
from mpmon.probes.files import Proc
from mpmon.probes.processes import ProcessTable
from mpmon.probes.shim import ShimProbe
from mpmon.probes.shim.file import Owner, ShimFile
from mpmon.shim.places import RECORDS, Name

PROGRAMS = Path(__file__).parent / "programs"
HOME = PROGRAMS.parent.parent.parent
LONGEST_S = 60.0


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
        ended = subprocess.run(
            [python, str(PROGRAMS / program), *arguments], env=environment(folder, TMPDIR=temporary, **more),
            capture_output=True, text=True, timeout=LONGEST_S, check=False,
        )  # fmt: skip
    return Done(ended.returncode, ended.stdout, ended.stderr)


@final
class Job:
    """A job that tells what it does, one JSON object a line, and goes on when told to."""

    def __init__(
        self, program: str, *arguments: str, folder: Path | str | None, python: str = sys.executable, **more: str
    ) -> None:
        self._temporary = tempfile.TemporaryDirectory(dir="/tmp")
        self._process = subprocess.Popen(
            [python, str(PROGRAMS / program), *arguments],
            env=environment(folder, TMPDIR=self._temporary.name, **more),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self._lines: Queue[str] = Queue()
        self._everybody: dict[tuple[int, float], psutil.Process] = {}
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self._remember()
        for process in self._everybody.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                if not _tidies_up(process):
                    process.send_signal(signal.SIGKILL)
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        deadline = time.monotonic() + 5
        while any(_runs(process) for process in self._everybody.values()) and time.monotonic() < deadline:
            time.sleep(0.005)
        for pid, _ in self._everybody:
            for left in Path("/dev/shm").glob(f"torch_{pid}_*"):
                left.unlink(missing_ok=True)
        self._temporary.cleanup()

    @property
    def pid(self) -> int:
        return self._process.pid

    def hear(self) -> dict[str, object]:
        """The next thing it says."""
        try:
            line = self._lines.get(timeout=LONGEST_S)
        except Empty:
            raise AssertionError("the job says nothing") from None
        assert line, "the job has ended"
        self._remember()
        return json.loads(line)

    def hear_pid(self, name: str = "child") -> int:
        """A process it names."""
        pid = self.hear()[name]
        assert isinstance(pid, int)
        return pid

    def tell(self, word: str = "go") -> None:
        """What it waits for."""
        assert self._process.stdin
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def end(self) -> int:
        """Its exit status, once it has ended by itself."""
        return self._process.wait(LONGEST_S)

    def _listen(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            if line.startswith("{"):
                self._lines.put(line)
        self._lines.put("")

    def _remember(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            root = psutil.Process(self.pid)
            for process in (root, *root.children(recursive=True)):
                self._everybody[process.pid, process.create_time()] = process


def _tidies_up(process: psutil.Process) -> bool:
    """It ends with the last of those it serves, and takes with it what they shared."""
    words = " ".join(process.cmdline())
    return "multiprocessing.resource_tracker" in words or "torch_shm_manager" in words


def _runs(process: psutil.Process) -> bool:
    """It is there and no zombie, which only init collects."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


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
            file = found[name.pid] = ShimFile(str(path), name, Owner(name.pid, time.time() - time.monotonic()))
            file.read()
            file.close()
    return found


def queue_of(file: ShimFile, kind: str = "Queue"):
    """The one queue of a kind that a process has."""
    (row,) = [row for row in file.queues if row.kind == kind]
    return row


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
