"""The file system does what the tests of dead ones rely on, and nothing of it stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.deadfs.contents import data
from tests.deadfs.mounting import MOODS, REPOSITORY, Mount, needs_fuse
from tests.live.running import Program
from tests.patience import readable, rest_of, status_of

pytestmark = [pytest.mark.live, needs_fuse]

READ = "import os, sys; os.stat(sys.argv[1]); print('read')"

OWNER = """
import pathlib, sys
from tests.deadfs.mounting import Mount
mount = Mount(pathlib.Path(sys.argv[1]))
mount.be(sys.argv[2])
print(mount.server.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    with Mount(tmp_path) as mount:
        yield mount


def mounted() -> dict[str, tuple[str, str]]:
    """Kind and source by mount point."""
    lines = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return {line[4]: (line[line.index("-") + 1], line[line.index("-") + 2]) for line in lines}


@contextmanager
def reader(mount: Mount) -> Iterator[subprocess.Popen[str]]:
    """A child that waits for the file system."""
    asked = [sys.executable, "-c", READ, f"{mount.place}/small.txt"]
    with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        try:
            while "request_wait_answer" not in Path(f"/proc/{child.pid}/wchan").read_text():
                assert child.poll() is None
            yield child
        finally:
            # Before that it may not be possible to kill it.
            mount.end()
            child.kill()


def test_it_answers(mount: Mount) -> None:
    assert mounted()[mount.place] == ("fuse.test", "server:/export")
    assert sorted(os.listdir(mount.place)) == ["data.bin", "direct.bin", "run", "small.txt"]
    for name in ("data.bin", "direct.bin"):
        assert Path(mount.place, name).read_bytes() == data()
    Path(mount.place, "small.txt").write_text("large")
    assert Path(mount.place, "small.txt").read_text() == "large\n"
    assert not os.listdir(f"{mount.place}/run")
    assert os.statvfs(mount.place).f_blocks
    with pytest.raises(FileNotFoundError):
        os.stat(f"{mount.place}/none")


def test_who_asks_a_silent_one_can_be_killed(mount: Mount) -> None:
    mount.be("silent")
    with reader(mount) as child:
        child.kill()
        assert status_of(child) == -signal.SIGKILL


def test_who_asks_one_that_swallows_cannot_be_killed_until_it_answers(mount: Mount) -> None:
    mount.be("swallow")
    with reader(mount) as child:
        mount.swallow_one()
        child.kill()
        while psutil.Process(child.pid).status() != psutil.STATUS_DISK_SLEEP:
            assert child.poll() is None
        mount.be("answer")
        assert status_of(child) == -signal.SIGKILL


@pytest.mark.parametrize("mood", MOODS)
def test_it_answers_again(mount: Mount, mood: str) -> None:
    mount.be(mood)
    with reader(mount) as child:
        mount.be("answer")
        assert rest_of(child)[0] == "read\n"
        assert min(os.listdir(mount.place)) == "data.bin"


@pytest.mark.parametrize("mood", MOODS)
def test_its_end_ends_every_wait(mount: Mount, mood: str) -> None:
    mount.be(mood)
    with reader(mount) as child:
        mount.end()
        assert status_of(child) == 1
    assert mount.place not in mounted()


@pytest.mark.parametrize("mood", MOODS)
def test_a_test_that_is_killed_leaves_nothing(tmp_path: Path, mood: str) -> None:
    command = [sys.executable, "-c", OWNER, str(tmp_path), mood]
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout
        server = os.pidfd_open(int(owner.stdout.readline()))
        assert str(tmp_path) in mounted()
        owner.kill()
        assert readable(server)
        os.close(server)
    assert str(tmp_path) not in mounted()


def test_in_the_namespace_of_one_process(tmp_path: Path) -> None:
    program = Path(__file__).parent / "programs" / "contained.py"
    with Program(str(program), str(tmp_path)).hear("alone") as contained, Mount(tmp_path, contained.pid) as mount:
        contained.tell()
        contained.hear("ready")
        assert mount.place not in mounted()
        assert "small.txt" in os.listdir(f"/proc/{contained.pid}/root{mount.place}")
