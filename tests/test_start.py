"""Another Python of ours finds what this one finds, and nothing that somebody put into its way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mpmon import demo, start
from tests.sleepers import sleeper

HOSTILE = (
    "mpmon/__init__.py",
    "multiprocessing/__init__.py",
    "runpy.py",
    "signal.py",
    "socket.py",
    "tempfile.py",
    "tty.py",
)


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What modules write to that lie in the current folder and on PYTHONPATH, under names of the standard library's."""
    told = tmp_path / "ran"
    hostile = tmp_path / "hostile"
    for name in HOSTILE:
        file = hostile / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"open({str(told)!r}, 'a').write('{name} ')\n", encoding="utf-8")
    monkeypatch.chdir(hostile)
    monkeypatch.setenv("PYTHONPATH", f"{os.pathsep}{hostile}")
    return told


def said(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def told_by(module: Path, code: str, *arguments: str, bare: bool = False) -> list[str]:
    """What a module of these lines prints."""
    module.write_text(code, encoding="utf-8")
    return said(*start.command(module.stem, *arguments, bare=bare)).splitlines()


def test_a_python_as_usual_would_run_them(ran: Path) -> None:
    said(sys.executable, "-c", "import socket")
    assert ran.read_text(encoding="utf-8") == "socket.py "


@pytest.mark.parametrize("scene", ["loader", "lock-cycle"])
def test_the_demo_runs_nothing_that_lies_about(scene: str, ran: Path) -> None:
    with demo.start(scene):
        pass
    assert not ran.exists()


def test_the_program_runs_nothing_that_lies_about(ran: Path) -> None:
    with sleeper(cwd="/", env={**os.environ, "PYTHONPATH": ""}) as process:
        words = start.command("mpmon", str(process.pid), "--once", "--for", "1")
        assert f"pid {process.pid}" in subprocess.run(words, capture_output=True, text=True, check=False).stdout
    assert not ran.exists()


@pytest.mark.parametrize("bare", [False, True])
def test_it_finds_what_this_one_finds(bare: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    code = "import sys, mpmon, msgspec\nprint(mpmon.__file__, msgspec.__file__, *sys.argv[1:], sep='\\n')\n"
    import msgspec

    import mpmon

    found = told_by(tmp_path / "asked_of.py", code, "a b", "", bare=bare)
    assert found == [mpmon.__file__, msgspec.__file__, "a b", ""]


def test_the_standard_library_comes_before_the_users_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "tty.py").write_text("raise SystemExit(9)", encoding="utf-8")
    assert told_by(tmp_path / "asked_of.py", "import tty\nprint(tty.__name__)\n") == ["tty"]


SPAWNS = """
import multiprocessing

def work(told):
    told.put(__name__)

if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    told = spawn.SimpleQueue()
    child = spawn.Process(target=work, args=(told,))
    child.start()
    print(told.get())
    child.join()
"""


def test_it_is_the_main_module_also_for_those_it_spawns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    assert told_by(tmp_path / "asked_of.py", SPAWNS) == ["__mp_main__"]


def test_in_a_folder_that_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert said(*start.command("mpmon", "--version")).startswith("mpmon ")
