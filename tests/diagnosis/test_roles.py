"""Who is who, from outside."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from mpmon.diagnosis.roles import LONGEST_NAME, Role, given_names, roles, still_hold
from mpmon.model import Frame, KnownChild, Process, Row, Stack
from tests.builders import ROOT, after, frame, history, process, snapshot, stack

BOOTSTRAP = ("multiprocessing/process.py:108 BaseProcess.run", "multiprocessing/process.py:314 BaseProcess._bootstrap")


def named(*rows: Row, root: int = ROOT, known: Mapping[int, Role] | None = None) -> dict[int, Role]:
    stacks: dict[int, list[Stack]] = {}
    for row in rows:
        if isinstance(row, Stack):
            stacks.setdefault(row.pid, []).append(row)
    given = given_names(row for row in rows if isinstance(row, KnownChild))
    return roles([row for row in rows if isinstance(row, Process)], stacks, root, known or {}, {}, given=given)


def names(*rows: Row, root: int = ROOT) -> dict[int, str]:
    return {pid: role.name for pid, role in named(*rows, root=root).items()}


def worker_frame(number: int) -> Frame:
    return frame("torch/utils/data/_utils/worker.py:334 _worker_loop", worker_id=str(number))


def test_the_number_of_a_loader_worker_is_a_local_of_its_loop() -> None:
    found = named(process(), process(7, parent=ROOT), stack("main", worker_frame(3), *BOOTSTRAP, pid=7))
    assert found[7] == Role(name="dataloader worker 3", kind="dataloader worker", parent=ROOT)
    assert found[7].serves


def test_without_a_stack_a_loader_worker_is_known_by_its_name_and_numbered_by_its_birth() -> None:
    workers = [process(pid, parent=ROOT, name="pt_data_worker") for pid in (7, 8, 9)]
    assert names(process(), *workers) == {
        ROOT: "main", 7: "dataloader worker 0", 8: "dataloader worker 1", 9: "dataloader worker 2",
    }  # fmt: skip


def test_workers_of_two_ranks_are_counted_apart() -> None:
    ranks = [process(pid, parent=ROOT, environment={"RANK": str(pid - 10)}) for pid in (10, 11)]
    workers = [process(pid, parent=parent, name="pt_data_worker") for pid, parent in ((20, 10), (21, 11), (22, 10))]
    found = named(process(), *ranks, *workers)
    assert [found[pid].name for pid in (20, 21, 22)] == [
        "dataloader worker 0",
        "dataloader worker 0",
        "dataloader worker 1",
    ]
    assert [found[pid].rank for pid in (20, 21, 22)] == [0, 1, 0]


def test_ranks_of_torchrun_have_it_in_their_environment() -> None:
    launcher = process(cmdline=("/usr/bin/python", "/usr/bin/torchrun", "--nproc-per-node=2", "train.py"))
    environment = {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}
    found = named(launcher, process(11, parent=ROOT, exe="/usr/bin/python3.11", environment=environment))
    assert found[ROOT] == Role(name="launcher", kind="launcher")
    assert found[11] == Role(name="rank 5", kind="rank", rank=5, local_rank=1, world_size=8, parent=ROOT)


@pytest.mark.parametrize("text", ["²", "٣", "-1", "1_000", " 1", "", "x", "9" * 5000])
def test_what_is_no_number_is_no_rank(text: str) -> None:
    rank = process(11, parent=ROOT, exe="/usr/bin/python3.11", environment={"RANK": text, "SLURM_PROCID": "3"})
    assert named(process(), rank)[11].rank == 3
    wrapper = frame("torch/multiprocessing/spawn.py:87 _wrap", i=text)
    assert named(process(), process(9, parent=ROOT), stack("main", wrapper, *BOOTSTRAP, pid=9))[9].rank is None


def test_a_loader_worker_inherits_the_rank_and_is_none() -> None:
    rank = process(11, parent=ROOT, environment={"RANK": "5"})
    worker = process(12, parent=11, name="pt_data_worker", environment={"RANK": "5"})
    helper = process(
        13, parent=11, name="ffmpeg", cmdline=("ffmpeg",), exe="/usr/bin/ffmpeg", environment={"RANK": "5"}
    )
    decoder = process(14, parent=12, cmdline=("python", "decode.py"), environment={"RANK": "5"})
    found = names(process(), rank, worker, helper, decoder)
    assert [found[pid] for pid in (12, 13, 14)] == ["dataloader worker 0", "subprocess ffmpeg", "subprocess decode.py"]


def test_mp_spawn_has_the_rank_in_its_wrapper() -> None:
    wrapper = frame("torch/multiprocessing/spawn.py:87 _wrap", i="2")
    found = named(process(), process(9, parent=ROOT), stack("main", "job.py:41 train", wrapper, *BOOTSTRAP, pid=9))
    assert found[9] == Role(name="rank 2", kind="rank", rank=2, parent=ROOT)


def spawned(**numbers: str | None) -> tuple[Row, ...]:
    """Children of mp.spawn in the order of their births; `None` for one whose script has ended, so that it says no number."""
    over = stack("main", "threading.py:1590 _shutdown", BOOTSTRAP[1])
    rows: list[Row] = [process()]
    for pid, number in enumerate(numbers.values(), start=11):
        wrapper = frame("torch/multiprocessing/spawn.py:87 _wrap", i=number or "")
        at_work = stack("main", "job.py:41 train", wrapper, *BOOTSTRAP, pid=pid)
        rows += [process(pid, parent=ROOT), at_work if number else msgspec.structs.replace(over, pid=pid, tid=pid)]
    return tuple(rows)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        (("0", None, "2"), "rank 1"),
        (("0", "1", None), None),
        (("0", None, "3"), None),
    ],
    ids=["later ones have the number of their place", "none comes later", "one is gone"],
)
def test_a_rank_without_a_number_has_the_one_of_its_place(numbers: tuple[str | None, ...], said: str | None) -> None:
    known = {pid: Role(name="rank ?", kind="rank", parent=ROOT) for pid in (11, 12, 13)}
    found = named(*spawned(**dict(zip("abc", numbers, strict=True))), known=known)
    name = found[11 + numbers.index(None)].name
    assert name == (said or "rank ?")


def test_no_two_ranks_have_one_number_once_some_say_theirs() -> None:
    guessed = {
        pid: Role(name=f"rank {place}", kind="rank", rank=place, parent=ROOT, guessed=True)
        for place, pid in enumerate((11, 12, 13, 14))
    }
    found = named(*spawned(a="2", b="3", c=None, d=None), known=guessed)
    assert [found[pid].name for pid in (11, 12, 13, 14)] == ["rank 2", "rank 3", "rank ?", "rank ?"]


def test_a_child_of_multiprocessing_is_called_after_its_function() -> None:
    frames = ("job.py:9 helper", "job.py:16 produce", *BOOTSTRAP)
    assert names(process(), process(9, parent=ROOT), stack("main", *frames, pid=9))[9] == "process produce"


def test_pool_workers() -> None:
    frames = ("multiprocessing/queues.py:365 SimpleQueue.get", "multiprocessing/pool.py:114 worker", *BOOTSTRAP)
    rows = [row for pid in (7, 8) for row in (process(pid, parent=ROOT), stack("main", *frames, pid=pid))]
    assert names(process(), *rows) == {ROOT: "main", 7: "pool worker 0", 8: "pool worker 1"}


SERVER = ("/usr/bin/python", "-c", "from multiprocessing.forkserver import main; main(7, 8, ['__main__'])")
TRACKER = ("/usr/bin/python", "-c", "from multiprocessing.resource_tracker import main;main(5)")


def test_helpers_are_known_by_their_command() -> None:
    rows = (process(), process(7, parent=ROOT, cmdline=SERVER), process(8, parent=ROOT, cmdline=TRACKER))
    assert names(*rows) == {ROOT: "main", 7: "forkserver", 8: "resource tracker"}


def test_a_child_of_the_fork_server_works_for_the_server_s_parent() -> None:
    child = process(9, parent=7, cmdline=SERVER, name="pt_data_worker")
    frames = stack(
        "main", "job.py:30 check_out", worker_frame(1), *BOOTSTRAP, "multiprocessing/forkserver.py:274 main", pid=9
    )
    found = named(process(), process(7, parent=ROOT, cmdline=SERVER), child, frames)
    assert found[9].name == "dataloader worker 1"
    assert found[9].parent == ROOT


def test_a_manager_is_known_by_its_loop() -> None:
    frames = (
        "multiprocessing/managers.py:176 Server.serve_forever",
        "multiprocessing/managers.py:599 _run_server",
        *BOOTSTRAP,
    )
    assert names(process(), process(9, parent=ROOT), stack("main", *frames, pid=9))[9] == "manager"


def test_what_is_no_python() -> None:
    assert names(process(), process(9, parent=ROOT, name="ffmpeg", cmdline=("ffmpeg",)))[9] == "subprocess ffmpeg"


def test_a_role_once_seen_is_kept() -> None:
    before = named(process(), process(7, parent=ROOT), stack("main", worker_frame(3), *BOOTSTRAP, pid=7))
    now = named(process(), process(7, parent=ROOT), known=before)
    assert now[7].name == "dataloader worker 3"


def test_a_number_that_is_seen_later_corrects_the_guess() -> None:
    before = named(process(), process(7, parent=ROOT, name="pt_data_worker"))
    assert before[7].name == "dataloader worker 0"
    worker = process(7, parent=ROOT, name="pt_data_worker")
    now = named(process(), worker, stack("main", worker_frame(3), *BOOTSTRAP, pid=7), known=before)
    assert now[7].name == "dataloader worker 3"


def test_a_number_once_seen_is_not_guessed_anew() -> None:
    worker = process(7, parent=ROOT, name="pt_data_worker")
    before = named(process(), worker, stack("main", worker_frame(3), *BOOTSTRAP, pid=7))
    assert named(process(), worker, known=before)[7].name == "dataloader worker 3"


def test_new_frames_of_one_process_leave_all_roles_as_they_are_or_not() -> None:
    rows = [process(), process(7, parent=ROOT), process(8, parent=ROOT)]
    known = named(*rows, stack("main", worker_frame(3), *BOOTSTRAP, pid=7), stack("main", pid=ROOT))

    def hold(*now: Stack) -> bool:
        stacks = {row.pid: [row] for row in now}
        return still_hold(known, rows, stacks, ROOT, {row.pid: frozenset() for row in now}, given={})

    assert hold(stack("train.py:9 step", pid=ROOT))
    assert hold(stack("train.py:2 collate", worker_frame(3), *BOOTSTRAP, pid=7))
    assert not hold(stack("main", worker_frame(4), *BOOTSTRAP, pid=7))
    assert not hold(stack("main", worker_frame(5), *BOOTSTRAP, pid=8))
    assert not hold(stack("main", pid=9))


# Names that programs give


def child(pid: int = 9, *, parent: int = ROOT, **more: object) -> Process:
    return process(pid, parent=parent, cmdline=("python", "-c", "spawn_main(...)", "--multiprocessing-fork"), **more)


def called(name: str, pid: int = 9, *, parent: int = ROOT, **more: int) -> KnownChild:
    return KnownChild(pid=parent, child=pid, name=name, **more)


OWN_RUN = stack("main", "gauges.py:12 Gauge.run", BOOTSTRAP[1], pid=9)
"""Of a subclass of `Process`: no frame shows a target."""


def test_a_subclass_of_process_has_the_name_of_its_process() -> None:
    assert names(process(), child(), OWN_RUN)[9] == "child of main"
    assert names(process(), child(), OWN_RUN, called("gauge"))[9] == "process gauge"
    assert names(process(), child(), OWN_RUN, called("Gauge-2"))[9] == "process Gauge-2"
    assert not named(process(), child(), OWN_RUN, called("gauge"))[9].target_known


@pytest.mark.parametrize("given", ["Process-1", "ForkProcess-12", "SpawnProcess-1:3"])
def test_a_target_says_more_than_a_name_that_multiprocessing_gives(given: str) -> None:
    frames = stack("main", "job.py:16 produce", *BOOTSTRAP, pid=9)
    role = named(process(), child(), frames, called(given))[9]
    assert role == Role(name="process produce", kind="process", parent=ROOT, target="produce", given=given)
    assert role.target_known


@pytest.mark.parametrize("given", ["maker", "Process-one"])
def test_a_name_that_the_program_gives_says_more_than_a_target(given: str) -> None:
    frames = stack("main", "job.py:16 run", *BOOTSTRAP, pid=9)
    role = named(process(), child(), frames, called(given))[9]
    assert role == Role(name=f"process {given}", kind="process", parent=ROOT, target="run", given=given)


def test_those_with_one_target_are_told_apart_by_their_names() -> None:
    rows = [row for pid in (9, 10) for row in (child(pid), stack("main", "job.py:16 produce", *BOOTSTRAP, pid=pid))]
    roles = named(process(), *rows, called("Process-1", 9), called("Process-2", 10))
    assert [roles[pid].name for pid in (9, 10)] == ["process produce (Process-1)", "process produce (Process-2)"]


def test_a_zombie_has_it_too() -> None:
    zombie = process(9, parent=ROOT, state="Z", cmdline=(), exit_code=9)
    assert names(process(), zombie, called("producer"))[9] == "process producer"


def test_so_does_a_child_of_the_fork_server_whose_client_has_its_process() -> None:
    server = process(7, parent=ROOT, cmdline=SERVER)
    forked = process(9, parent=7, cmdline=SERVER)
    assert names(process(), server, forked, OWN_RUN, called("gauge"))[9] == "process gauge"


def test_only_its_parent_s_program_says_what_a_child_is_called() -> None:
    sibling = called("gauge", parent=8)  # Its copy of the parent's objects.
    assert names(process(), child(8), child(9), sibling)[9] == "child of main (2)"


def test_the_names_of_a_chain_of_children_do_not_grow() -> None:
    found = names(process(), *(child(pid, parent=ROOT if pid == 9 else pid - 1) for pid in range(9, 15)))
    assert [found[pid] for pid in range(9, 15)] == ["child of main", *["descendant of main"] * 5]


def test_an_object_of_one_that_was_collected_names_nobody() -> None:
    assert names(process(), child(), called("gauge", returncode=0))[9] == "child of main"


def test_one_that_changed_its_command_line_is_still_a_process_of_multiprocessing() -> None:
    retitled = process(9, parent=ROOT, cmdline=("gauge: idle",), exe="/usr/bin/python3.11")
    ffmpeg = process(9, parent=ROOT, cmdline=("ffmpeg",), exe="/usr/bin/ffmpeg")
    assert names(process(), retitled)[9] == "subprocess gauge: idle"
    assert names(process(), retitled, called("gauge"))[9] == "process gauge"
    assert names(process(), ffmpeg, called("gauge"))[9] == "subprocess ffmpeg"


@pytest.mark.parametrize("nonsense", ["", "  ", "two\nlines", "\x1b[2J", "\x00\x00\xe9\x7f", "Wörker"])
def test_what_is_no_plain_text_is_no_name(nonsense: str) -> None:
    assert names(process(), child(), OWN_RUN, called(nonsense))[9] == "child of main"


def test_a_long_name_is_cut() -> None:
    assert names(process(), child(), called("g" * LONGEST_NAME))[9] == "process " + "g" * 40
    assert names(process(), child(), called("g" * 400))[9] == "process " + "g" * 39 + "…"


def test_a_name_once_seen_is_kept_and_gives_way_to_what_says_more() -> None:
    before = named(process(), child(), OWN_RUN, called("what?"))
    assert named(process(), child(), OWN_RUN, known=before)[9].name == "process what?"
    target = stack("main", "job.py:16 produce", *BOOTSTRAP, pid=9)
    now = named(process(), child(), target, called("Process-1"), known=before)
    assert now[9].name == "process produce"
    assert named(process(), child(), OWN_RUN, called("Process-1"), known=now)[9].name == "process produce"


def test_a_question_mark_gives_way_to_any_name() -> None:
    before = named(process(), child(), OWN_RUN)
    assert named(process(), child(), OWN_RUN, called("what?"), known=before)[9].name == "process what?"


def test_a_name_that_comes_after_the_frames_is_seen_though_nothing_else_has_changed() -> None:
    first = snapshot(process(), child(), OWN_RUN)
    later = msgspec.structs.replace(after(first, 1.0), remembered=(called("gauge"),))
    gone = msgspec.structs.replace(after(later, 1.0), remembered=())
    assert [history(first).roles[9].name, history(first, later).roles[9].name] == ["child of main", "process gauge"]
    assert history(first, later, gone).roles[9].name == "process gauge"


def test_while_nobody_is_called_otherwise_nothing_is_made_anew() -> None:
    first = snapshot(process(), child(), OWN_RUN, called("gauge"))
    anew = msgspec.structs.replace(after(first, 1.0), remembered=(called("gauge"),))
    known, seen = history(first), history(first, anew)
    assert seen.given == known.given == {(ROOT, 9): "gauge"}
    assert known.add(anew).given is known.given
    assert known.add(anew).roles is known.roles
