"""Files of dead processes in /dev/shm: left behind is what nobody has mapped, of all that there are, whenever they began."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mpmon.model import Process, SharedMemory
from mpmon.probes.ipc import leftovers
from mpmon.probes.ipc.creators import Creators
from mpmon.probes.ipc.leftovers import Leftovers
from mpmon.probes.maps import device_of
from tests.builders import process
from tests.probes.tree import Tree, TreeProc

JOB, ANOTHER, LAST = 4100, 5000, 5001
CREATOR = 9
NAME = f"torch_{CREATOR}_3_0"
LATER_S = 1e6


class Machine(TreeProc):
    """A tree in which something happens while somebody is asked."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.meanwhile: dict[int, Callable[[], None]] = {}
        self.refuses: dict[int, int] = {}
        """By pid, the number of an error."""

    def read(self, *parts: str | int, limit: int = 1 << 16) -> bytes:
        if parts[-1] == "maps" and isinstance(pid := parts[0], int):
            self.meanwhile.pop(pid, lambda: None)()
            if pid in self.refuses:
                raise OSError(self.refuses[pid], os.strerror(self.refuses[pid]))
        return super().read(*parts, limit=limit)


class Shm:
    """A /dev/shm with one file of a dead process, and the processes of the machine, none of which has it mapped."""

    def __init__(self, folder: Path) -> None:
        (folder / "dev/shm").mkdir(parents=True)
        self.file = folder / "dev/shm" / NAME
        self.file.write_bytes(b"x")
        self.tree = Tree(folder / "proc")
        for pid in (JOB, ANOTHER, LAST):
            self.tree.add(pid, parent=1)
            self.belongs(pid, self.file.stat().st_uid)
        (self.tree.root / str(JOB) / "root").symlink_to(folder)
        self.proc = Machine(self.tree.root)
        self.looks = Leftovers(self.proc, Creators(self.proc), eager=True)
        self._now = 0.0

    def belongs(self, pid: int, uid: int) -> None:
        """This process is of that user."""
        (self.tree.root / str(pid) / "status").write_text(f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n")

    def maps(self, pid: int, *, thread: int | None = None) -> None:
        """This process has it mapped, as its maps say, or those of one of its threads."""
        info = self.file.stat()
        folder = self.tree.root / str(pid) / (f"task/{thread}" if thread else "")
        (folder / "maps").write_text(
            f"7f0000000000-7f0000001000 rw-s 00000000 {device_of(info)} {info.st_ino} /dev/shm/{NAME}\n"
        )

    def left_behind(self) -> list[str | None]:
        """What is told long after the look before."""
        self._now += LATER_S
        memory = SharedMemory(device=self.file.stat().st_dev, pids=(JOB,), size_bytes=1 << 30, used_bytes=1)
        row: Process = process(JOB)
        self.looks.refresh((memory,), (), {JOB: row}, self._now)
        return [row.path for row in self.looks.rows]


@pytest.fixture
def shm(tmp_path: Path) -> Iterator[Shm]:
    made = Shm(tmp_path)
    yield made
    made.proc.close()


def test_what_nobody_has_mapped_is_left_behind(shm: Shm) -> None:
    assert shm.left_behind() == [f"/dev/shm/{NAME}"]


def test_what_somebody_has_mapped_is_not(shm: Shm) -> None:
    shm.maps(ANOTHER)
    assert shm.left_behind() == []


def test_a_child_has_what_its_parent_had_who_ended_before_anybody_asked(shm: Shm) -> None:
    """The child began when all that there were had been listed."""
    shm.maps(ANOTHER)

    def forks_and_ends() -> None:
        shm.tree.add(LAST + 1, parent=1, start=2000)
        shm.maps(LAST + 1)
        shm.tree.end(ANOTHER)

    shm.proc.meanwhile[LAST] = forks_and_ends
    assert shm.left_behind() == []


def test_a_pid_that_was_given_away_meanwhile_is_asked_again(shm: Shm) -> None:
    def is_another() -> None:
        shm.tree.end(LAST)
        shm.tree.add(LAST, parent=1, start=2000)
        shm.maps(LAST)

    shm.proc.meanwhile[ANOTHER] = is_another
    assert shm.left_behind() == []


def test_who_maps_it_later_by_its_name_is_heard_of(shm: Shm) -> None:
    assert shm.left_behind()
    shm.maps(ANOTHER)
    assert shm.left_behind() == []
    shm.tree.end(ANOTHER)
    assert shm.left_behind() == [f"/dev/shm/{NAME}"]


@pytest.mark.parametrize(("owner", "heir"), [(ANOTHER, LAST), (LAST, ANOTHER)], ids=["to a later", "to an earlier"])
def test_who_maps_it_once_asked_from_one_who_is_gone_before_is_heard_of(shm: Shm, owner: int, heir: int) -> None:
    """Whichever of the two is asked first."""
    shm.maps(owner)

    def hands_over() -> None:
        shm.maps(heir)
        shm.tree.end(owner)

    shm.proc.meanwhile[owner] = hands_over
    assert shm.left_behind() == []


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.EMFILE], ids=os.strerror)
def test_who_cannot_be_asked_may_have_it(shm: Shm, number: int) -> None:
    shm.proc.refuses[ANOTHER] = number
    assert shm.left_behind() == []


def test_one_of_another_user_has_it_not(shm: Shm) -> None:
    shm.proc.refuses[ANOTHER] = errno.EACCES
    shm.belongs(ANOTHER, shm.file.stat().st_uid + 1)
    assert shm.left_behind() == [f"/dev/shm/{NAME}"]


def test_one_with_more_mappings_than_are_read_may_have_it(shm: Shm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "MAPS_LIMIT", 64)
    (shm.tree.root / str(ANOTHER) / "maps").write_text("7f0000000000-7f0000001000 rw-p 00000000 00:00 0\n" * 9)
    assert shm.left_behind() == []


@pytest.mark.parametrize("threads", [1, 2])
def test_a_process_has_it_as_long_as_one_of_its_threads_is_there(shm: Shm, threads: int) -> None:
    shm.tree.change(ANOTHER, state="Z", threads=threads)
    shm.tree.thread(ANOTHER, ANOTHER + 9)
    shm.maps(ANOTHER, thread=ANOTHER + 9)
    assert bool(shm.left_behind()) is (threads == 1)
