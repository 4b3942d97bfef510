"""Looks at shared memory on a made-up /proc: what is read when, and what nonsense does."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpmon.codec import encode
from mpmon.model import Process, Snapshot
from mpmon.probes.files import Proc
from mpmon.probes.interpreter import queues
from mpmon.probes.interpreter.layouts import TABLE, Layout
from mpmon.probes.interpreter.pages import READS
from mpmon.probes.interpreter.queues import QueueObject
from mpmon.probes.interpreter.runtime import Runtime
from mpmon.probes.ipc import IpcProbe, looks, probe
from mpmon.probes.ipc.contents import Contents
from mpmon.probes.ipc.creators import Creators
from mpmon.probes.ipc.looks import Look, look_at
from mpmon.probes.ipc.queues import KEPT_ENDED, Place, Queue
from mpmon.probes.ipc.storages import HEAD, REFCOUNTER, counts
from tests.builders import process, snapshot
from tests.probes.garbage import GarbageMemory
from tests.probes.tree import Tree, TreeProc, stat_line

LIMITS = (
    "Limit Soft Limit Hard Limit Units\nMax open files            1024                 4096                 files\n"
)


@pytest.fixture
def proc(tree: Tree) -> Iterator[Proc]:
    made = TreeProc(tree.root)
    yield made
    made.close()


def born(tree: Tree, pid: int, **more: object) -> Process:
    tree.add(pid)
    home = tree.root / str(pid)
    (home / "limits").write_text(LIMITS)
    (home / "root" / "dev" / "shm").mkdir(parents=True)
    return process(pid, **more)


def moved(row: Process) -> Process:
    return msgspec.structs.replace(row, cpu_s=row.cpu_s + 1)


def share(tree: Tree, pid: int, name: str, content: bytes = b"\1" + bytes(99)) -> Path:
    """A file of torch that lies in its /dev/shm."""
    file = tree.root / str(pid) / "root" / "dev" / "shm" / name
    file.write_bytes(content)
    return file


def line(file: Path, *, pages: int = 1, suffix: str = "") -> str:
    info = file.stat()
    device = f"{os.major(info.st_dev):02x}:{os.minor(info.st_dev):02x}"
    return f"7f0000000000-{0x7F0000000000 + 4096 * pages:x} rw-s 00000000 {device} {info.st_ino} /dev/shm/{file.name}{suffix}\n"


def maps(tree: Tree, pid: int, *lines: str) -> None:
    (tree.root / str(pid) / "maps").write_text("".join(lines))


def look(made: IpcProbe, *processes: Process, at: float = 0.0) -> Snapshot:
    return made.add(snapshot(*processes, at=at, root=processes[0].pid))


# When


def test_a_screen_is_there_at_once(tree: Tree, proc: Proc) -> None:
    made, first = IpcProbe(proc), born(tree, 10)
    empty = snapshot(first, root=10)
    assert made.add(empty) is empty
    assert len(look(made, first, at=1.0).limits) == 1


def test_first_looks_are_made_in_turns_and_at_once_for_a_report(tree: Tree, proc: Proc) -> None:
    everybody = [born(tree, pid) for pid in range(10, 50)]
    made = IpcProbe(proc)
    known = [len(look(made, *everybody, at=at).limits) for at in range(5)]
    assert known == [0, 16, 32, 40, 40]
    assert probe.FIRST_PER_ROUND == 16
    assert len(look(IpcProbe(proc, eager=True), *everybody).limits) == 40


def test_a_process_that_stands_still_is_not_looked_at_again(tree: Tree, proc: Proc) -> None:
    made, first = IpcProbe(proc, eager=True), born(tree, 10)
    file = share(tree, 10, "torch_10_1_0")
    before = look(made, first)
    maps(tree, 10, line(file))
    for at in (5.0, 500.0):
        after = look(made, first, at=at)
        assert after.shared_uses == ()
        assert after.limits is before.limits
    assert [row.maps for row in look(made, moved(first), at=501.0).shared_uses] == [1]


def test_one_that_moves_is_looked_at_after_a_pause(tree: Tree, proc: Proc) -> None:
    made, first = IpcProbe(proc, eager=True), born(tree, 10)
    look(made, first)
    maps(tree, 10, "\n" * 7)
    assert [row.maps for row in look(made, moved(first), at=1.0).limits] == [0]
    assert [row.maps for row in look(made, moved(first), at=probe.AGAIN_S).limits] == [7]


def test_looking_again_is_paid_from_a_purse(tree: Tree, proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    everybody = [born(tree, pid) for pid in range(10, 14)]
    made = IpcProbe(proc)
    for at in range(3):
        look(made, *everybody, at=at)
    looked: list[int] = []

    def noted(proc: Proc, pid: int, *arguments: object) -> looks.Look:
        looked.append(pid)
        return look_at(proc, pid, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(probe, "look_at", noted)
    spent = iter(range(10_000))
    # Each look at the clock costs as much as a second brings in.
    monkeypatch.setattr(probe.time, "thread_time", lambda: next(spent) * probe.INCOME)
    for at in range(10, 400):
        look(made, *map(moved, everybody), at=at)
    # Far fewer than once a round each, but nobody is forgotten.
    assert set(looked) == {10, 11, 12, 13}
    assert len(looked) < 390


def test_what_ended_is_forgotten(tree: Tree, proc: Proc) -> None:
    made, first, second = IpcProbe(proc, eager=True), born(tree, 10), born(tree, 11)
    assert {row.pid for row in look(made, first, second).limits} == {10, 11}
    assert {row.pid for row in look(made, first, at=1.0).limits} == {10}
    # The same pid, another process.
    again = look(made, first, msgspec.structs.replace(second, start_time=second.start_time + 50), at=2.0)
    assert {row.pid for row in again.limits} == {10, 11}


def test_zombies_have_nothing(tree: Tree, proc: Proc) -> None:
    made, first, dead = IpcProbe(proc, eager=True), born(tree, 10), born(tree, 11, state="Z")
    assert {row.pid for row in look(made, first, dead).limits} == {10}


# What


def test_what_one_process_uses_up(tree: Tree, proc: Proc) -> None:
    first = born(tree, 10)
    file = share(tree, 10, "torch_10_1_0")
    maps(tree, 10, line(file, pages=3), "7f10-7f20 rw-p 0 00:00 0 [heap]\n", line(file, suffix=" (deleted)"))
    for number in range(5):
        (tree.root / "10" / "fd" / str(number)).symlink_to(file if number < 2 else "/dev/null")
    (row,) = look(IpcProbe(proc, eager=True), first).limits
    assert (row.maps, row.descriptors, row.descriptors_limit) == (3, 5, 1024)
    assert (row.storages, row.storage_bytes, row.storage_descriptors) == (1, 2 * 3 * 4096, 2)


def test_too_many_files_are_counted_in_full(tree: Tree, proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "MOST_FILES", 2)
    first = born(tree, 10)
    files = [share(tree, 10, f"torch_10_1_{number}") for number in range(5)]
    maps(tree, 10, *(line(file, pages=number + 1) for number, file in enumerate(files)))
    seen = look(IpcProbe(proc, eager=True), first)
    assert [row.storages for row in seen.limits] == [5]
    assert [row.storage_bytes for row in seen.limits] == [15 * 4096]
    assert {row.path[-1] for row in seen.shared_files if row.id in {use.object for use in seen.shared_uses}} == {
        "3",
        "4",
    }


def test_a_file_that_is_another_one_now_is_not_read(tree: Tree, proc: Proc) -> None:
    first = born(tree, 10)
    file = share(tree, 10, "torch_10_1_0")
    maps(tree, 10, line(file))
    file.rename(file.with_name("old"))
    share(tree, 10, "torch_10_1_0", b"\7" + bytes(99))
    (row,) = [row for row in look(IpcProbe(proc, eager=True), first).shared_files if row.path.endswith("_0")][:1]
    assert row.count is None


def test_a_link_in_the_place_of_a_file_is_not_followed(tree: Tree, proc: Proc) -> None:
    first = born(tree, 10)
    file = share(tree, 10, "torch_10_1_0")
    secret = tree.root / "secret"
    secret.write_bytes(b"\5" + bytes(99))
    maps(tree, 10, line(secret).replace("secret", "torch_10_1_0"))
    file.unlink()
    file.symlink_to(secret)
    assert [row.count for row in look(IpcProbe(proc, eager=True), first).shared_files] == [None]


# What a job may have put there


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_no_file_in_the_place_of_one_is_not_waited_for(kind: str, tree: Tree, proc: Proc) -> None:
    first = born(tree, 10)
    file = share(tree, 10, "torch_10_1_0")
    maps(tree, 10, line(file))
    file.unlink()
    os.mkfifo(file) if kind == "pipe" else file.mkdir()
    seen = look(IpcProbe(proc, eager=True), first)
    assert [(row.size_bytes, row.count) for row in seen.shared_files] == [(4096, None)]
    assert seen.unknowns == (), "its own file is gone, which is no failure"


def torch_in(tree: Tree, pid: int, folder: str, version: str = "__version__ = '9.9'\n") -> Path:
    """A torch below the root of a process, which maps its library."""
    home = tree.root / str(pid) / "root" / folder / "torch"
    home.mkdir(parents=True)
    (home / "version.py").write_text(version)
    maps(tree, pid, f"7f0000000000-7f0000001000 r-xp 00000000 fe:01 7 /{folder}/torch/lib/libtorch_cpu.so\n")
    return home


def test_the_version_of_torch_is_the_containers(openat2: None, tree: Tree, proc: Proc, tmp_path: Path) -> None:
    """An absolute link means something else outside."""
    first = born(tree, 10)
    torch_in(tree, 10, str(tmp_path).lstrip("/"))
    link = tree.root / "10" / "root" / "link"
    link.symlink_to(tmp_path)
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").write_text("__version__ = 'of the host'")
    maps(tree, 10, "7f0000000000-7f0000001000 r-xp 00000000 fe:01 7 /link/torch/lib/libtorch_cpu.so\n")
    assert [row.torch for row in look(IpcProbe(proc, eager=True), first).limits] == ["9.9"]


@pytest.mark.parametrize("kind", ["pipe", "link", "large"])
def test_a_version_that_is_no_version(kind: str, tree: Tree, proc: Proc) -> None:
    first = born(tree, 10)
    file = torch_in(tree, 10, "lib") / "version.py"
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "link":
        file.symlink_to("../real")
        (file.parent.parent / "real").write_text("__version__ = '9.9'")
    else:
        with file.open("wb") as made:
            made.truncate(5 << 30)
    assert [row.torch for row in look(IpcProbe(proc, eager=True), first).limits] == [None]


@pytest.mark.parametrize("kind", ["pipe", "numbers", "another one", "gone", "alive"])
def test_the_creator_of_a_file_by_what_a_container_has_for_a_proc(kind: str, tree: Tree, proc: Proc) -> None:
    first = born(tree, 10, namespace_pid=1)
    inside = tree.root / "10" / "root" / "proc"
    for pid in (1, 7):
        (inside / str(pid)).mkdir(parents=True)
        (inside / str(pid) / "stat").write_text(stat_line(pid))
    file = inside / "7" / "stat"
    if kind != "alive":
        file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "numbers":
        file.write_text(stat_line(7, start=10**400))
    elif kind == "another one":
        file.write_text(stat_line(7, start=10**12))
    share(tree, 10, "torch_7_1_0")
    creators = Creators(proc)
    assert creators.alive(7, first, 1.8e9) is (kind == "alive")
    shutil.rmtree(inside / "1")
    creators.renew({})
    assert creators.alive(7, first, 1.8e9) is None, "it is the /proc of another namespace"


def test_of_those_who_put_or_got_and_have_ended_the_youngest_are_remembered(tree: Tree, proc: Proc) -> None:
    root = born(tree, 10)
    parts = QueueObject("Queue", (3, 4), readers=None, writers=None, room=None, most=None)
    queue = Queue("pipe:5", root.pid, Place(3, parts), {})
    queue.putters = {root.key, *((pid, root.start_time + pid) for pid in range(100, 200))}
    queue.getters = {(pid, root.start_time + pid) for pid in (7, 8, 9)}
    queue.forget({root.key})
    queue.renew()
    assert queue.row.putters == (10, *range(200 - KEPT_ENDED, 200))
    assert queue.row.getters == (7, 8, 9)


def asked(tree: Tree, rounds: int, *, sent: frozenset[int] = frozenset()) -> list[list[int]]:
    """Whose ledgers are read in each round, of two trainers that have a queue and two workers each, and of one without."""
    parts = QueueObject("Queue", (3, 4), readers=None, writers=None, room=None, most=None)
    contents = Contents(TreeProc(tree.root), per_round=1, ledgers_per_round=2, ledgers_again_s=300.0)
    rows = {pid: process(pid, forked=pid not in (1, 10, 20) and pid not in sent) for pid in (1, 10, 11, 12, 20, 21, 22)}
    known = {name: Queue(name, pid, Place(3, parts), {"room": f"room {pid}"}) for name, pid in (("a", 10), ("b", 20))}
    looks = {pid: Look(pid, 0.0) for pid in rows}
    for pid in (10, 11, 12, 20, 21, 22):
        looks[pid].names = frozenset({f"room {pid // 10 * 10}"})
    for queue in known.values():
        queue.places = {rows[queue.pid].key: queue.first}
    found: list[list[int]] = []
    for second in range(rounds):
        found.append([row.pid for row in contents._next_users(known, looks, rows, float(second))])
    return found


def test_of_each_queue_one_is_asked_before_a_second_one_is(tree: Tree) -> None:
    assert asked(tree, 4) == [[10, 20], [11, 21], [12, 22], []]


def test_one_that_has_not_told_where_it_keeps_a_queue_is_not_asked_how_much_it_took(tree: Tree) -> None:
    assert asked(tree, 3, sent=frozenset({11, 12, 21})) == [[10, 20], [22], []]


def test_users_of_a_queue_that_nobody_used_are_asked_again_soon_and_then_more_seldom(tree: Tree) -> None:
    rounds = [second for second, pids in enumerate(asked(tree, 100)) if 10 in pids]
    assert rounds == [0, 5, 15, 35, 75]


# Nonsense


def test_a_name_that_is_no_text_can_be_written_down(tree: Tree, proc: Proc) -> None:
    first = born(tree, 10)
    folder = os.fsencode(tree.root) + b"/\xff\xed\xa0\x80"
    os.mkdir(folder)
    with open(folder + b"/torch_10_1_0", "wb"):
        os.symlink(folder + b"/torch_10_1_0", os.fsencode(tree.root) + b"/10/fd/3")
    (row,) = look(IpcProbe(proc, eager=True), first).shared_files
    assert row.path.endswith("/\ufffd\ufffd\ufffd\ufffd/torch_10_1_0")
    assert encode(row)


@given(st.binary(max_size=300), st.integers(0, REFCOUNTER))
def test_any_bytes_are_a_refcounter_or_not(noise: bytes, at: int) -> None:
    content = (b"\1" + bytes(REFCOUNTER))[:at] + noise
    content = content[:REFCOUNTER].ljust(REFCOUNTER, b"\0")
    found = counts(content)
    words = memoryview(content)[HEAD:].cast("q")
    assert found is None or found == {slot: words[slot] for slot in range(len(words)) if words[slot]}


@given(st.lists(st.one_of(st.text(max_size=60), st.sampled_from([
    "7f00-7f01 rw-s 0 00:1b 5 /dev/shm/torch_1_2_3", "7f00-7f01 rw-s 0 00:1b 5 /dev/shm/sem.mp-x (deleted)",
    "/torch_1_2_3", "7f00 rw-s /torch_1_2_3", "x-y rw-s 0 00:1b 5 /sem.a", "7f00-7f01 rw-p 0 00:1b 5 /a/torch_1_2_3 (deleted)",
])), max_size=8))  # fmt: skip
def test_any_lines_of_maps_are_read(found: list[str]) -> None:
    text = "\n".join(found).encode("utf-8", "surrogatepass")
    areas = list(looks._named_areas(text))
    assert all("/torch_" in area.path or "/sem." in area.path for area in areas)


@given(st.binary(max_size=4000))
def test_any_maps_and_limits_are_read(noise: bytes) -> None:
    class Noise(Proc):
        def read(self, *parts: str | int, limit: int = 0) -> bytes:
            return noise

    look = look_at(Noise(), os.getpid(), 0.0, None)
    assert look.limits is not None


@pytest.mark.parametrize("layout", TABLE.values(), ids=lambda layout: f"{layout.version[0]}.{layout.version[1]}")
@given(seed=st.integers(0, 10_000), ends_after=st.one_of(st.none(), st.integers(0, 400)))
@settings(max_examples=25)
def test_queues_are_searched_in_any_memory(layout: Layout, seed: int, ends_after: int | None) -> None:
    memory = GarbageMemory(seed, ends_after=ends_after, words=(0x10008,), most_reads=READS + 1000)
    known = layout if layout.modules else msgspec.structs.replace(layout, modules=7656)
    search = queues._Search(memory, Runtime(0x10000, known))  # type: ignore[arg-type]
    search.run()
    assert all(found.kind in ("Queue", "JoinableQueue", "SimpleQueue") for found in search.found.queues)
