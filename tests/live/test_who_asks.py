"""Nothing that may never answer is asked for by mpmon itself: its helper asks, which may be left waiting.

A file server tells who has asked it.  It answers, so that every look gets as far as it can.  What waits for a lock that
somebody may keep who waits for a server is in /proc, and an audit hook tells who opens that.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from tests.deadfs.jobs import PROGRAMS, job
from tests.deadfs.mounting import Mount, needs_fuse
from tests.live.running import PROGRAMS as COMMON
from tests.live.running import REPOSITORY, Program
from tests.live.test_dead_mounts import Look, needs_tmux
from tests.tui.tmux import Terminal

pytestmark = [pytest.mark.live, needs_fuse]

DUMP = REPOSITORY / "tests" / "probes" / "fixtures" / "flight_recorder" / "rank0.json"

HELPER = "mpmon-aside"
OTHERS = {HELPER, "py-spy"}
"""Processes of mpmon that may wait for a file server."""


WAYS = ("auto", "native", "py-spy", "flight-recorder")

OPENED = frozenset(
    "cgroup cmdline comm environ io mountinfo net/snmp schedstat stat status syscall task".split()  # noqa: SIM905  a table of words
)
"""Names below /proc/PID that mpmon itself opens.  Of a process of which a thread sleeps in the kernel it has the command line and
the environment read, too; see `tests.live.test_dead_mounts`.
"""

HOOK = """
import os, sys
said = os.open(os.environ["OPENED"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
def note(event, given):
    if event in ("open", "os.listdir", "os.scandir") and isinstance(given[0], (str, bytes)):
        os.write(said, os.fsencode(given[0]) + b"\\n")
sys.addaudithook(note)
"""
"""For the Python of mpmon itself: its helpers are started without start-up code."""


class There(NamedTuple):
    """A job all of whose files lie on a mount, and that mount."""

    mount: Mount
    program: Program


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[There]:
    with Mount(tmp_path_factory.mktemp("there")) as mount:
        for file in belongings():
            put(file, mount.place)
        put(Path(sys.executable).resolve(), mount.place, "python3")
        put(PROGRAMS / "there.py", mount.place)
        put(PROGRAMS / "there.py", f"{mount.place}/run", "1.1.1.mpmon")
        put(DUMP, f"{mount.place}/run", "rank0.json")
        environment = {
            "PYTHONPATH": f"{COMMON}:{PROGRAMS}", "PYTHONHOME": sys.base_prefix, "LD_LIBRARY_PATH": mount.place,
            "MPMON_RUN_DIR": f"{mount.place}/run", "MPMON_DUMP_STACKS": "1", "TMPDIR": mount.place,
            "TORCH_FR_DUMP_TEMP_FILE": f"{mount.place}/run/dump_", "XDG_RUNTIME_DIR": mount.place,
        }  # fmt: skip
        with job(mount, f"{mount.place}/there.py", python=f"{mount.place}/python3", **environment) as program:
            assert {f"{mount.place}/{file.name}" for file in belongings()} <= mapped(program.pid)
            yield There(mount, program)


def belongings() -> list[Path]:
    """Of this Python, what a program has mapped besides its executable."""
    folder, name = sysconfig.get_config_vars("LIBDIR", "INSTSONAME")
    library = Path(folder) / name if sysconfig.get_config_var("Py_ENABLE_SHARED") else None
    found = importlib.util.find_spec("select")
    module = Path(found.origin) if found and found.origin and found.has_location else None
    return [file for file in (library, module) if file]


def put(file: Path, folder: str, name: str = "") -> None:
    """A copy of it there, to be executed too."""
    made = os.open(f"{folder}/{name or file.name}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o755)
    with open(made, "wb") as copy:
        copy.write(file.read_bytes())


def mapped(pid: int) -> set[str]:
    return {row.path for row in psutil.Process(pid).memory_maps()}


def helpers(there: There, pid: int) -> set[str]:
    """Names of the processes that one mpmon, which may be gone by now, has had ask the file system; it has not done so itself."""
    asked = there.mount.askers()
    assert pid not in {asker.pid for asker in asked}, "mpmon itself has asked the file system something"
    return {asker.name for asker in asked if asker.parent == pid}


def options(there: There, way: str) -> tuple[str, ...]:
    """For a report that reads stacks in a way, or records of torch as well."""
    if way == "flight-recorder":
        return str(there.program.pid), "--once", "--json", "--flight-recorder", f"{there.mount.place}/run"
    return str(there.program.pid), "--once", "--json", "--stacks", way


@pytest.mark.parametrize("mood", ["answer", "swallow"])
@pytest.mark.parametrize("way", WAYS)
def test_who_asks_for_a_report(there: There, way: str, mood: str) -> None:
    there.mount.be(mood)
    look = Look(*options(there, way))
    try:
        answer = look.answer()
    finally:
        there.mount.be("answer")
    # A folder that the user names has to answer.
    assert answer.status in {"answer": (3,), "swallow": (2, 3, 4)}[mood], answer
    assert HELPER in helpers(there, look.process.pid) <= OTHERS


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file for whatever is opened or listed by an mpmon started from now on."""
    (tmp_path / "sitecustomize.py").write_text(HOOK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("OPENED", str(tmp_path / "opened"))
    return tmp_path / "opened"


@pytest.mark.parametrize("way", WAYS)
def test_what_a_report_opens_of_other_processes(there: There, opened: Path, way: str) -> None:
    look = Look(*options(there, way))
    assert look.answer().status == 3
    found = [re.fullmatch(r"/proc/(\d+)(?:/task/\d+)?/(.+)", line) for line in opened.read_text().splitlines()]
    names = {row[2] for row in found if row and int(row[1]) != look.process.pid}
    assert "stat" in names
    assert names <= OPENED


def test_lines(there: There) -> None:
    look = Look(str(there.program.pid), "--plain", "--interval", "0.2")
    look.said("the job hangs")
    look.process.send_signal(signal.SIGINT)
    look.answer()
    assert HELPER in helpers(there, look.process.pid) <= OTHERS


@pytest.mark.parametrize("command", ["doctor", "list"])
def test_what_surrounds_a_look(there: There, command: str) -> None:
    look = Look(*(("doctor", str(there.program.pid)) if command == "doctor" else ()))
    assert look.answer().status is not None
    assert helpers(there, look.process.pid) <= OTHERS


@needs_tmux
def test_the_screen_and_what_its_keys_ask(there: There) -> None:
    with Terminal(str(there.program.pid), size=(160, 48)) as terminal:
        pid = terminal.program()
        terminal.shows("HUNG")
        terminal.press("e")
        terminal.shows("MPMON_RUN_DIR")
        terminal.press("q")
        terminal.exit_status()
    assert HELPER in helpers(there, pid) <= OTHERS
