"""Where the shim writes: in a folder that is its user's alone, whatever others have laid ready in its place."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from mpmon.shim import places
from mpmon.shim.places import STACKS, run_folder
from mpmon.shim.transfers import Refcounter
from tests.descriptors import own_descriptors
from tests.shim.running import HOME, files, python, run

STRANGER = 1001

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


@pytest.fixture
def default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place where files go when nobody said otherwise; nothing is there yet."""
    folder = tmp_path / "mpmon-0"
    monkeypatch.delenv("MPMON_RUN_DIR", raising=False)
    monkeypatch.setattr(places, "default_folders", lambda *_: (str(folder),))
    return folder


def own_elsewhere(path: Path) -> Path:
    """A folder of one's own, and a link to it."""
    elsewhere = path.with_name("elsewhere")
    elsewhere.mkdir(mode=0o700)
    path.symlink_to(elsewhere)
    return elsewhere


def led_by_a_stranger(path: Path) -> None:
    own_elsewhere(path)
    os.lchown(path, STRANGER, STRANGER)


def made_by_a_stranger(path: Path) -> None:
    path.mkdir(mode=0o700)
    os.chown(path, STRANGER, STRANGER)


def with_mode(mode: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.mkdir()
        path.chmod(mode)

    return make


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "a stranger's link": (led_by_a_stranger, f"belongs to another user \\(uid {STRANGER}\\)"),
    "a stranger's folder": (made_by_a_stranger, f"belongs to another user \\(uid {STRANGER}\\)"),
    "open to all": (with_mode(0o777), "may be written by others"),
    "open to a group": (with_mode(0o770), "may be written by others"),
    "a pipe": (os.mkfifo, "File exists"),
    "a link to nothing": (lambda path: path.symlink_to("none"), "File exists"),
}


@needs_root
@pytest.mark.parametrize("named", [False, True], ids=["by default", "named"])
@pytest.mark.parametrize("kind", BAD)
def test_what_others_could_have_laid_ready_is_not_used(
    kind: str, named: bool, default: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, why = BAD[kind]
    make(default)
    if named:
        monkeypatch.setenv("MPMON_RUN_DIR", str(default))
    before = own_descriptors()
    with pytest.raises(OSError, match=why):
        run_folder()
    assert not own_descriptors() - before
    elsewhere = default.with_name("elsewhere")
    assert not elsewhere.exists() or not list(elsewhere.iterdir())


def test_a_link_of_ones_own_is_followed(default: Path) -> None:
    elsewhere = own_elsewhere(default)
    path, descriptor = places.open_folder()
    assert (path, os.fstat(descriptor).st_ino) == (str(default), elsewhere.stat().st_ino)
    os.close(descriptor)


def test_a_folder_that_is_made_is_ones_own(default: Path) -> None:
    before = os.umask(0)
    try:
        assert run_folder() == str(default)
    finally:
        os.umask(before)
    assert stat.S_IMODE(default.stat().st_mode) == 0o700


@needs_root
@pytest.mark.parametrize("kind", ["a stranger's link", "open to all"])
def test_the_job_goes_on_without(kind: str, tmp_path: Path) -> None:
    make, why = BAD[kind]
    make(folder := tmp_path / "folder")
    ended = run("items.py", "fork", folder=folder)
    assert (ended.status, ended.said) == (0, "380 0\n")
    (line,) = ended.complained.splitlines()
    assert line.startswith("mpmon: shim off in pid ")
    assert why.replace("\\", "") in line
    assert not list(folder.iterdir())


def test_what_is_made_lies_in_the_folder_that_was_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    monkeypatch.setenv("MPMON_RUN_DIR", str(folder))
    _, descriptor = places.open_folder()
    folder.rename(tmp_path / "old")
    folder.mkdir()
    os.close(places.make_file("x", descriptor, os.O_WRONLY))
    os.close(descriptor)
    assert (list(folder.iterdir()), [path.name for path in (tmp_path / "old").iterdir()]) == ([], ["x"])


def test_a_pipe_in_the_place_of_the_file_for_stacks_keeps_nobody_waiting(tmp_path: Path) -> None:
    code = (
        "import os, stat; from mpmon.shim import dumps, places\n"
        f"path = os.path.join({str(tmp_path)!r}, places.Name.own().file({STACKS!r}))\n"
        "os.mkfifo(path); dumps.listen(); print(stat.filemode(os.stat(path).st_mode))"
    )
    assert python(code, MPMON_RUN_DIR=str(tmp_path), PYTHONPATH=str(HOME)) == "-rw-------"


def test_a_pipe_in_the_place_of_a_refcounter_keeps_nobody_waiting() -> None:
    name = f"torch_{os.getpid()}_1_0"
    os.mkfifo(f"/dev/shm/{name}")
    try:
        counter = Refcounter(f"/{name}".encode())
        counter.read()
        assert counter.count(0) is None
    finally:
        os.unlink(f"/dev/shm/{name}")


def test_pages_are_not_asked_for_of_another_file_at_the_same_path(tmp_path: Path) -> None:
    """Those of the mapping would not be there, and the first store into one of them a SIGBUS on a tmpfs that is full."""
    code = (
        "import mpmon.shim, multiprocessing as m, os; mpmon.shim.install(); queues = [m.SimpleQueue()]\n"
        "from mpmon.shim.writer import WRITER\n"
        "os.rename(WRITER.path, WRITER.path + '.old'); open(WRITER.path, 'x').close()\n"
        "queues += [m.SimpleQueue() for _ in range(100)]\n"
        "print(os.stat(WRITER.path).st_size, WRITER.is_full, len(queues)); os.rename(WRITER.path + '.old', WRITER.path)"
    )
    assert python(code, MPMON_RUN_DIR=str(tmp_path), PYTHONPATH=str(HOME)) == "0 True 101"
    (file,) = files(tmp_path).values()
    assert file.dropped > 0
