"""The page of everything known of one process."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
import pytest

from mpmon.diagnosis.findings import Diagnosis, Verdict
from mpmon.model import (
    Blocked,
    Cgroup,
    Handle,
    KernelObject,
    Limits,
    LockUse,
    SemaphoreUse,
    SharedFile,
    SharedUse,
    Snapshot,
    Thread,
    Unknown,
)
from mpmon.tui.describe.details import details
from mpmon.tui.line import text_of
from mpmon.tui.scene import Scene
from tests.builders import view
from tests.tui.fakes import MIB, NOW, FakeWatch, ended, frame, observe, process, stack, with_tables
from tests.tui.screens import SIZES, check_golden, play, screen_text_of, settle

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from mpmon.diagnosis.findings import Observation

RANK, PEER, WORKER, STRANGER = 4101, 4102, 4121, 99
PIPE, UNREAD, SOCKET, PEER_SOCKET, SEMAPHORE = "pipe:900", "pipe:901", "socket:31", "socket:32", "semaphore:00:1b:77:0"
LOG, LOCK = "file:08:01:512", "futex:4101:0x7f00aa"
GROUP = "/slurm/job_1"


def rank() -> Observation:
    """Rank 1: its main thread waits for a lock that its writer thread holds, which waits for room in a pipe."""
    rows = (
        process(
            RANK,
            ppid=4100,
            user="ada",
            uid=1000,
            exe="/opt/venv/bin/python3",
            cwd="/home/ada/cats",
            environment={"RANK": "1", "MASTER_PORT": "29500"},
            cgroup=GROUP,
        ),
        process(PEER, ppid=4100),
        process(WORKER, "pt_data_worker", ppid=RANK),
    )
    threads = (stack(RANK, frame("log", "/home/ada/cats/log.py", 12), frame("train", "/home/ada/cats/train.py", 40)),)
    writer = stack(RANK, frame("write", "/home/ada/cats/log.py", 30), tid=4105, thread="writer")
    handles = (
        Handle(pid=RANK, object="device:/dev/null", fd=0, path="/dev/null"),
        Handle(pid=RANK, object=LOG, fd=1, reads=False, path="/home/ada/cats/run.log"),
        Handle(pid=PEER, object=LOG, fd=1, reads=False, path="/home/ada/cats/run.log"),
        Handle(pid=RANK, object=PIPE, fd=7, reads=False),
        Handle(pid=WORKER, object=PIPE, fd=5, writes=False),
        Handle(pid=RANK, object=UNREAD, fd=8, writes=False),
        Handle(pid=RANK, object="pipe:902", fd=9, writes=False),
        Handle(pid=RANK, object="pipe:902", fd=10, reads=False),
        Handle(pid=RANK, object="pipe:903", fd=12, reads=False),
        Handle(pid=RANK, object=SOCKET, fd=11),
        Handle(pid=PEER, object=PEER_SOCKET, fd=4),
        Handle(pid=RANK, object=SEMAPHORE),
        Handle(pid=WORKER, object=SEMAPHORE),
    )
    snapshot = Snapshot(
        taken_at=NOW,
        root_pid=RANK,
        root_start_time=NOW - 600,
        processes=rows,
        threads=tuple(Thread(pid=RANK, tid=t, name="pt_autograd", run_ns=0, slices=0) for t in (4106, 4107)),
        stacks=(*threads, writer),
        blocked=(
            Blocked(pid=RANK, tid=RANK, state="S", syscall="futex", ran_at=NOW - 20, waits_on=(LOCK,)),
            Blocked(pid=RANK, tid=4105, state="S", syscall="write", ran_at=NOW - 21, waits_on=(PIPE,), writes=True),
            *(
                Blocked(pid=RANK, tid=t, state="S", syscall="futex", waits_on=(f"futex:{RANK}:{t:#x}",))
                for t in (4106, 4107)
            ),
        ),
        objects=(
            KernelObject(id=LOCK, kind="futex"),
            KernelObject(id=PIPE, kind="pipe", fill=65536, capacity=65536),
            KernelObject(id=SOCKET, kind="socket", path="tcp 10.0.0.1:29500 to 10.0.0.2:41000", peer=PEER_SOCKET),
        ),
        handles=handles,
        outsiders=(Handle(pid=STRANGER, object="pipe:903", fd=3, writes=False),),
        semaphores=(SemaphoreUse(pid=WORKER, object=SEMAPHORE, count=1, max_value=1),),
        locks=(
            LockUse(pid=RANK, tid=RANK, object=LOCK, kind="Lock", holds=False, function="log", depth=1),
            LockUse(pid=RANK, tid=4105, object=LOCK, kind="Lock", holds=True, function="write", depth=0),
        ),
        shared_files=(
            SharedFile(id="file:1", kind="storage", path="/dev/shm/torch_7_1", size_bytes=12 * MIB, deleted=True),
            SharedFile(
                id="file:2",
                kind="refcounter",
                path="/dev/shm/torch_9_2",
                size_bytes=80064,
                creator=9,
                creator_alive=False,
            ),
        ),
        shared_uses=(
            SharedUse(pid=RANK, object="file:1", maps=1, descriptors=1),
            SharedUse(pid=WORKER, object="file:1", maps=1),
            SharedUse(pid=RANK, object="file:2", maps=1),
        ),
        limits=(Limits(pid=RANK, descriptors=1000, descriptors_limit=1024, maps=700, maps_limit=65530),),
        cgroups=(
            Cgroup(
                path=GROUP, limit_bytes=64 << 30, oom_kills=2, cpus=8.0, reasons={"peak_bytes": "kernel before 5.19"}
            ),
        ),
    )
    views = (
        view(RANK, "rank 1", rank=1, local_rank=1, world_size=4, mood="waiting", does="waits for a lock"),
        view(PEER, "rank 2", rank=2),
        view(WORKER, "dataloader worker 0", rank=1, parent=RANK),
    )
    return observe(snapshot, Diagnosis(verdict=Verdict.HEALTHY, processes=views))


def said(observation: Observation, pid: int = RANK, width: int = 200) -> list[str]:
    return [text_of(line).strip() for line in details(Scene(observation), pid, width)]


@pytest.mark.parametrize("size", SIZES)
def test_details_page(size: str) -> None:
    drawn: list[str] = []

    async def script(pilot: Pilot[int]) -> None:
        await pilot.press("home", "enter")
        await settle(pilot, lambda: "details" in screen_text_of(pilot))
        drawn.append(screen_text_of(pilot))

    play(FakeWatch(rank()), script, size=SIZES[size], first="rank 2")
    check_golden(f"details-rank-{size}", drawn[0])


def test_who_is_at_the_other_end_is_named() -> None:
    lines = said(rank())
    assert "1 -w /home/ada/cats/run.log · also rank 2" in lines
    assert "7 -w pipe:900 · a thread waits for it · 65536 of 65536 bytes · read by dataloader worker 0 (4121)" in lines
    assert "8 r- pipe:901 · no known process writes it" in lines
    assert "9 r- pipe:902 · writes it itself" in lines
    assert "12 -w pipe:903 · process 99, not part of the job, reads" in lines
    assert "11 rw socket:31 · tcp 10.0.0.1:29500 to 10.0.0.2:41000 · to rank 2 (4102)" in lines
    assert "map rw semaphore:00:1b:77:0 · held by dataloader worker 0 (4121) · also dataloader worker 0" in lines


@pytest.mark.parametrize(
    ("holder", "listens", "ends"),
    [(RANK, False, " · its own process has the other end"), (STRANGER, False, " · no other known process at the other end"),
     (RANK, True, "")],
    ids=["its own", "nobody's", "a listening socket"],
)  # fmt: skip
def test_whose_the_other_end_of_a_connection_is(holder: int, *, listens: bool, ends: str) -> None:
    rows = rank().snapshot
    socket = KernelObject(id=SOCKET, kind="socket", path="tcp 10.0.0.1:29500", peer=PEER_SOCKET, listens=listens)
    waits = Blocked(pid=RANK, tid=RANK, state="S", syscall="recvfrom", ran_at=NOW - 20, waits_on=(SOCKET,))
    holders = (Handle(pid=RANK, object=SOCKET, fd=11), Handle(pid=holder, object=PEER_SOCKET, fd=12))
    found = msgspec.structs.replace(
        rank(),
        snapshot=msgspec.structs.replace(
            rows, objects=(socket,), blocked=(waits,), handles=holders[: 2 - (holder != RANK)]
        ),
    )
    assert f"waits for socket:31 · tcp 10.0.0.1:29500{ends}" in said(found)


def test_a_thread_says_what_it_waits_for_and_what_it_holds() -> None:
    lines = said(rank())
    at = lines.index("MainThread (4101)")
    assert lines[at + 1 : at + 6] == [
        "in futex · asleep 20 s",
        "log.py:12 in log",
        "- waiting to lock Lock 0x7f00aa, held by thread writer",
        "train.py:40 in train",
        "waits for futex:4101:0x7f00aa · held by thread writer",
    ]
    assert "- holding Lock 0x7f00aa" in lines[lines.index("writer (4105)") :]


def test_a_thread_that_python_has_not_named_yet_is_the_main_one() -> None:
    observation = rank()
    unnamed = stack(RANK, frame("<module>", "<string>", 1), thread="")
    snapshot = msgspec.structs.replace(observation.snapshot, stacks=(unnamed,))
    assert f"MainThread ({RANK})" in said(msgspec.structs.replace(observation, snapshot=snapshot))


@pytest.mark.parametrize(
    ("timeout_s", "limit"),
    [(5.0, " · waits at most 5 s"), (3.0, " · waits at most 3 s"), (2.0, ""), (0.0, "")],
)
def test_a_limit_that_is_over_is_not_told(timeout_s: float, limit: str) -> None:
    polls = Blocked(pid=RANK, tid=RANK, state="S", syscall="poll", ran_at=NOW - 2.5, timeout_s=timeout_s)
    assert f"in poll · asleep 2 s{limit}" in said(with_tables(rank(), blocked=(polls,)))


def test_less_than_a_second_is_not_told_as_none() -> None:
    polls = Blocked(pid=RANK, tid=RANK, state="S", syscall="poll", ran_at=NOW - 0.1, timeout_s=0.2)
    sleeps = Blocked(pid=RANK, tid=4105, state="S", syscall="clock_nanosleep", wakes_at=NOW + 0.1)
    lines = said(with_tables(rank(), blocked=(polls, sleeps)))
    assert "in poll · asleep 0 s · waits less than 1 s" in lines
    assert "in clock_nanosleep · wakes in less than 1 s" in lines


def test_threads_without_frames_that_wait_alike_are_one_block() -> None:
    lines = said(rank())
    assert lines[lines.index("2 × pt_autograd · without Python frames") + 1] == "in futex"


def test_limits_that_are_nearly_reached_stand_out() -> None:
    styled = [line for line in details(Scene(rank()), RANK, 200) if "descriptors" in text_of(line)]
    assert styled[0][-1] == ("1000 of 1024", "warn")
    assert "mappings 700 of 65530" in said(rank())


def test_the_control_group_and_its_kills() -> None:
    assert "memory limit 64G · peak – (kernel before 5.19) · 8 CPUs · 2 killed for memory" in said(rank())


def test_shared_memory_with_who_else_has_it() -> None:
    lines = said(rank())
    assert (
        "12M /dev/shm/torch_7_1 (deleted) · storage · 1 mapped, 1 open · also dataloader worker 0 of rank 1 (4121)"
        in lines
    )
    assert "78K /dev/shm/torch_9_2 · refcounter · 1 mapped, 0 open · made by 9, which is dead" in lines


def test_what_is_not_known_has_a_reason() -> None:
    snapshot = Snapshot(
        taken_at=NOW,
        root_pid=RANK,
        root_start_time=NOW - 600,
        processes=(process(RANK, ppid=1),),
        unknowns=(
            Unknown(table="handles", pid=RANK, reason="open files cannot be read"),
            Unknown(table="processes", pid=RANK, reason="belongs to another user"),
        ),
    )
    lines = said(observe(snapshot, Diagnosis(verdict=Verdict.UNKNOWN)))
    assert "open files cannot be read" in lines
    assert "not read: belongs to another user" in lines
    assert "shared memory" not in lines


def test_a_process_that_is_gone() -> None:
    assert said(rank(), 77) == ["process 77 is gone"]


def test_a_process_that_ended_is_neither_running_nor_using_anything() -> None:
    before = ended()
    exits = [
        msgspec.structs.replace(e, process=msgspec.structs.replace(e.process, state="R")) for e in before.snapshot.exits
    ]
    _, numbers, moved, *_ = said(with_tables(before, exits=tuple(exits)), 4121)
    assert re.fullmatch(r"ended with exit status 3 · started [-0-9: ]+, 10 min 00 s ago · 12\.5 s of CPU", numbers)
    assert moved == "read –, written –"


def test_a_process_that_nobody_has_collected_says_how_it_ended() -> None:
    zombie = process(RANK, state="Z", exit_code=9, threads=1)
    snapshot = with_tables(rank(), processes=(zombie,)).snapshot
    _, numbers, *_ = said(observe(snapshot, Diagnosis(verdict=Verdict.UNKNOWN)))
    assert numbers.startswith("zombie · killed by SIGKILL (9) · started ")


def test_who_waits_for_its_children_and_who_holds_one_that_is_gone() -> None:
    waits = ("process:any", "process:-1", f"process:{PEER}")
    asleep = Blocked(pid=RANK, tid=RANK, state="S", syscall="wait4", waits_on=waits)
    observation = with_tables(rank(), blocked=(asleep,))
    assert [line for line in said(observation) if line.startswith("waits for ")] == [
        "waits for any child",
        "waits for a process that has ended",
        "waits for rank 2 (4102)",
    ]
