"""Make a recorded case of a program that hangs: run it, watch it with mpmon, keep the facts and the truth.

    python -m tests.hangs.record dl-getitem-sleep       # a case beside this file, once more
    python -m tests.hangs.record FOLDER [FOLDER ...]    # a new case, with a copy of its program

A FOLDER holds the program (`job.py` and what it needs) and `case.toml` with at least

    id = "dl-getitem-sleep"         # name of the folder beside this file
    title = "one line"
    command = ["{python}", "job.py"]
    verdict = "hung"                # hung, slow or healthy
    cause = "worker-stuck"          # and also_ok = […], other causes that are right
    min_hung_s = 3                  # how long one has to look to see it
    settle_s = 4                    # how long to wait after the program says that it has settled

The program tells the truth about itself: JSON lines, appended to the file named by `CORPUS_TRUTH`, with `event` and
`pid`: `root` (the process to watch), `role` (with `role`), `culprit` (who has to move first; `"dead": true` for one
that has ended, `"forgotten": true` where nothing tells its pid any more, `"all": true` where every one counts) and
`settled`.
Lines on which a culprit stands carry the comment `# CULPRIT`, which is taken out of the copy that runs.

The recording names neither this machine nor its folders: the job seems to have run in `/home/user/job` on a host called
`host`, with the Python of `/usr`.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import final

import msgspec

from mpmon.probes.addresses import addresses
from tests.hangs.expected import HOME, Expected, to_toml

SETTLES_WITHIN_S = 60.0
ENDS_WITHIN_S = 5.0
REPOSITORY = HOME.parent.parent
_MARK = re.compile(r"\s*# CULPRIT.*")
_MADE = ("recording.jsonl.gz", "expected.toml", "__pycache__")
"""What a folder holds beside the program and what is said about it."""

Key = tuple[int, int]
"""(pid, start time in ticks): a process for ever."""


class Case(msgspec.Struct, kw_only=True):
    """`case.toml`; what else stands there is not needed here."""

    id: str
    title: str
    command: list[str]
    verdict: str
    cause: str = "none"
    also_ok: list[str] = []
    min_hung_s: float = 3.0
    settle_s: float = 2.0


class Told(msgspec.Struct, kw_only=True):
    """One line of truth."""

    event: str
    pid: int = 0
    role: str = ""
    dead: bool = False
    forgotten: bool = False
    all: bool = False


@final
class Job:
    """The copy of a case, running in a folder of its own; everything it started ends with the `with` block."""

    def __init__(self, folder: Path, case: Case, python: str) -> None:
        self.case = case
        self.python = python
        self.base = Path(tempfile.mkdtemp(prefix="j", dir="/tmp"))
        self.home = self.base / "job"
        self.lines: dict[str, tuple[int, ...]] = {}
        self._truth = self.base / "truth.jsonl"
        self._mark = f"CORPUS_TRUTH={self._truth}".encode()
        self._known: dict[int, int] = {}
        self._copy(folder)

    def __enter__(self) -> Job:
        scripts = Path(self.python).parent
        command = [word.replace("{python}", self.python) for word in self.case.command]
        if "/" not in command[0]:
            command[0] = shutil.which(command[0], path=str(scripts)) or command[0]
        environment = {name: os.environ[name] for name in ("LANG", "HOME") if name in os.environ}
        environment |= {
            "CORPUS_TRUTH": str(self._truth),
            "PATH": f"{scripts}:{os.environ.get('PATH', '')}",
            "TMPDIR": str(self.base / "tmp"),
        }
        with (self.base / "log").open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=self.home, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        shutil.rmtree(self.base, ignore_errors=True)

    def settle(self) -> None:
        """Wait until the job says that its state will not change any more."""
        deadline = time.monotonic() + SETTLES_WITHIN_S
        while not any(line.event == "settled" for line in self.told()):
            if self._process.poll() is not None or time.monotonic() > deadline:
                words = (self.base / "log").read_text(errors="replace")[-2000:]
                raise SystemExit(f"{self.case.id} did not settle:\n{words}")
            time.sleep(0.1)
        self.members()
        time.sleep(self.case.settle_s)

    def told(self) -> list[Told]:
        """What the job has said so far."""
        text = self._truth.read_text() if self._truth.exists() else ""
        lines = text.split("\n")[:-1]
        return [msgspec.convert(json.loads(line), Told, strict=False) for line in lines]

    def members(self) -> set[Key]:
        """Every process of the job that lives, found by session, environment or parent."""
        stats = {pid: stat for pid in _pids() if (stat := _stat(pid))}
        found = {pid for pid, stat in stats.items() if stat[2] == self._process.pid or self._known.get(pid) == stat[3]}
        found |= {pid for pid in stats if self._mark in _read(pid, "environ")}
        while more := {pid for pid, stat in stats.items() if stat[1] in found} - found:
            found |= more
        self._known.update({pid: stats[pid][3] for pid in found})
        return {(pid, stats[pid][3]) for pid in found if stats[pid][0] not in "ZX"}

    def _copy(self, folder: Path) -> None:
        (self.base / "tmp").mkdir()
        shutil.copytree(folder, self.home, ignore=shutil.ignore_patterns("case.toml", *_MADE))
        for file in self.home.rglob("*.py"):
            text = file.read_text()
            if marked := marked_lines(text):
                self.lines[file.name] = marked
                file.write_text("\n".join(_MARK.sub("", line) for line in text.split("\n")))

    def _end(self) -> None:
        """Ask, then force: a stopped process hears neither before it goes on."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for key in self.members():
                _send(key, number)
                _send(key, signal.SIGCONT)
            deadline = time.monotonic() + ENDS_WITHIN_S
            while self.members() and time.monotonic() < deadline:
                self._process.poll()
                time.sleep(0.05)
        self._process.wait()
        for pid in self._known:
            for left in Path("/dev/shm").glob(f"torch_{pid}_*"):
                left.unlink(missing_ok=True)


def marked_lines(text: str) -> tuple[int, ...]:
    """The numbers of the lines of a program on which a culprit stands."""
    return tuple(number for number, line in enumerate(text.split("\n"), 1) if _MARK.search(line))


def record(folder: Path, output: Path, python: str, *, again: bool) -> Path:
    """Run the case of a folder and write its recording and truth, beside the program or a copy of it; the folder of these."""
    case = msgspec.toml.decode((folder / "case.toml").read_bytes(), type=Case)
    new = output / case.id
    is_copy = new.resolve() != folder.resolve()
    if is_copy and new.exists() and not again:
        raise SystemExit(f"{new} exists already; --again replaces it.")
    with Job(folder, case, python) as job:
        job.settle()
        facts = job.base / "facts.jsonl"
        _watch(job, facts)
        truth = job.told()
        lines = facts.read_bytes()
        names = _names(job) | _gpu_names(lines)
    if is_copy:
        shutil.rmtree(new, ignore_errors=True)
        shutil.copytree(folder, new, ignore=shutil.ignore_patterns(*_MADE))
    with (new / "recording.jsonl.gz").open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(anonymous(lines, names))
    (new / "expected.toml").write_text(to_toml(_expected(case, truth, job.lines)))
    return new


def anonymous(text: bytes, names: dict[str, str]) -> bytes:
    """The text with every name replaced, the longest first; a name ends where no letter or digit follows."""
    for name in sorted(names, key=len, reverse=True):
        pattern = rb"(?<![\w.])" + re.escape(name.encode()) + rb"(?![\w])"
        text = re.sub(pattern, names[name].encode(), text)
    return text


def _watch(job: Job, facts: Path) -> None:
    root = next(line.pid for line in job.told() if line.event == "root")
    seconds = max(8.0, job.case.min_hung_s + 5.0)
    command = [sys.executable, "-m", "mpmon", str(root), "--once", "--for", f"{seconds:g}", "--record", str(facts)]
    answer = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=False)
    if answer.returncode not in (0, 3, 4):
        raise SystemExit(f"mpmon answered {answer.returncode}:\n{answer.stdout}")
    print(f"{job.case.id}: {answer.stdout.splitlines()[0]}")


def _expected(case: Case, truth: list[Told], lines: dict[str, tuple[int, ...]]) -> Expected:
    culprits = [line for line in truth if line.event == "culprit"]
    hangs = case.verdict == "hung"
    return Expected(
        title=case.title, verdict=case.verdict, causes=(case.cause, *case.also_ok) if hangs else (),
        suspects=tuple(dict.fromkeys(line.pid for line in culprits)),
        dead=tuple(dict.fromkeys(line.pid for line in culprits if line.dead)),
        forgotten=any(line.forgotten for line in culprits),
        every_suspect=any(line.all for line in culprits), lines=lines if hangs else {},
        roles={str(line.pid): line.role for line in truth if line.event == "role"},
    )  # fmt: skip


def _names(job: Job) -> dict[str, str]:
    """What must not be in a recording, and what stands there instead."""
    question = "import json, os, sys as s; print(json.dumps([s.prefix, s.base_prefix, os.path.realpath(s.executable)]))"
    words = subprocess.run([job.python, "-c", question], stdout=subprocess.PIPE, check=True).stdout
    prefix, base_prefix, executable = json.loads(words)
    names = {
        str(job.base): "/home/user",
        executable: "/usr/bin/python3",
        base_prefix: "/usr",
        os.path.realpath(base_prefix): "/usr",
        prefix: "/usr",
        os.path.realpath(prefix): "/usr",
        str(Path(job.python).parent.parent): "/usr",
    }
    # Its own group is that of the jobs it starts.
    groups = {line.split(":", 2)[2] for line in _read(os.getpid(), "cgroup").decode().splitlines()} - {"/"}
    names |= {f'"{field}":"{group}"': f'"{field}":"/job"' for group in groups for field in ("cgroup", "path")}
    host = socket.gethostname()
    names[f'"host":"{host}"'] = '"host":"host"'
    if len(host) >= 5:
        names[host] = "host"
    return names | {address: "2001:db8::1" if ":" in address else "192.0.2.1" for address in addresses()}


def _gpu_names(facts: bytes) -> dict[str, str]:
    """The numbers of devices that are those of one machine only."""
    found = dict.fromkeys(re.findall(r"GPU(?:-[0-9a-f]+){5}", facts.decode()))
    return {name: f"GPU-{place:08x}-0000-0000-0000-000000000000" for place, name in enumerate(found)}


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid())


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _stat(pid: int) -> tuple[str, int, int, int] | None:
    """State, parent, session and start time in ticks."""
    text = _read(pid, "stat").decode(errors="replace")
    if not text:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return fields[0], int(fields[1]), int(fields[3]), int(fields[19])


def _send(key: Key, number: int) -> None:
    """A signal to this process and to no other that has its pid by now."""
    pid, start = key
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            if (stat := _stat(pid)) and stat[3] == start:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.hangs.record", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="with a program that hangs, or the name of a case")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the job (default: this one)")
    parser.add_argument("--output", type=Path, default=HOME, metavar="FOLDER", help="where the new folders go")
    parser.add_argument("--again", action="store_true", help="replace a case of this name by that of another folder")
    options = parser.parse_args()
    for name in options.folders:
        folder = HOME / name if (HOME / name).is_dir() else Path(name)
        new = record(folder, options.output, options.python, again=options.again)
        print(f"  {(new / 'recording.jsonl.gz').stat().st_size / 1000:.1f} kB in {new.name}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
