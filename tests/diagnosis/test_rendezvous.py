"""Ranks that gather: who is told when they wait for each other, and who may still be on the way."""

from __future__ import annotations

import zlib

import msgspec
import pytest

from mpmon.diagnosis.findings import Certainty, Diagnosis, Verdict
from mpmon.model import KnownChild, Row
from tests.builders import ROOT, START, blocked, diagnosed, frame, process, running, snapshot, stack, thread

GATHERS = ("torch/distributed/distributed_c10d.py:1700 init_process_group", "train.py:4 main")
BOOTSTRAP = ("multiprocessing/process.py:108 BaseProcess.run", "multiprocessing/process.py:314 BaseProcess._bootstrap")
JOIN = ("multiprocessing/popen_fork.py:40 wait", "multiprocessing/process.py:149 join", "train.py:20 <module>")


def said(*rows: Row, seconds: int = 14) -> Diagnosis:
    return diagnosed([snapshot(*rows, at=float(second)) for second in range(seconds)])


def launcher() -> tuple[Row, ...]:
    agent = "torch/distributed/elastic/agent/server/api.py:900 _invoke_run"
    return (
        process(cmdline=("python", "torchrun", "train.py")),
        stack("main", agent, "torch/distributed/run.py:918 main"),
        blocked("clock_nanosleep", ran_at=START - 60),
    )


def rank(number: int, *, world_size: int = 2) -> tuple[Row, ...]:
    """A rank in `init_process_group`, where it has been for a minute."""
    environment = {"RANK": str(number), "WORLD_SIZE": str(world_size)}
    pid = 4110 + number
    return (
        process(pid, parent=ROOT, environment=environment),
        stack("main", *GATHERS, pid=pid),
        blocked("poll", pid=pid, ran_at=START - 60),
    )


def test_ranks_that_wait_for_each_other_are_one_finding() -> None:
    found = said(*launcher(), *rank(0), *rank(1))
    assert [finding.cause for finding in found.findings] == ["rendezvous"]
    assert [suspect.role for suspect in found.findings[0].suspects] == ["rank 0", "rank 1"]
    assert [waiter.role for waiter in found.findings[0].waiters] == ["launcher"]


def launcher_of(*options: str) -> Diagnosis:
    """Of a launcher that waits for those of other nodes."""
    agent = "torch/distributed/elastic/agent/server/api.py:500 _rendezvous"
    gathers = "torch/distributed/elastic/rendezvous/dynamic_rendezvous.py:1162 next_rendezvous"
    return said(
        process(cmdline=("python", "torchrun", *options, "train.py")),
        stack("main", gathers, agent, "torch/distributed/run.py:918 main"),
        blocked("clock_nanosleep", ran_at=START - 60),
    )


def test_a_launcher_waits_for_those_of_the_other_nodes() -> None:
    found = launcher_of("--nnodes", "2", "--rdzv-endpoint=head:29500").findings[0]
    assert (found.cause, found.certainty) == ("rendezvous", Certainty.LIKELY)
    assert found.summary == "launcher waits for the launchers of the other nodes, and none has appeared"
    assert found.evidence == ("launcher (pid 4100): --nnodes 2 --rdzv-endpoint=head:29500",)


@pytest.mark.parametrize("options", [("--nnodes", "1:2"), ("--nnodes=1:2",)])
def test_a_launcher_that_may_have_enough_nodes_soon_begins_without_the_others(options: tuple[str, ...]) -> None:
    assert launcher_of(*options).verdict is not Verdict.HUNG


def spawned(pid: int, *frames: str, number: int | None = None) -> tuple[Row, ...]:
    """A child of multiprocessing that runs `train`; once it has a number, it is a rank in `init_process_group`."""
    main = frame("train.py:9 train") if number is None else frame("train.py:9 train", rank=str(number), world_size="2")
    inner = ("torch/distributed/rendezvous.py:190 _create_c10d_store",) if number is not None else frames
    return process(pid, parent=ROOT), stack("main", *inner, main, *BOOTSTRAP, pid=pid)


def parent() -> tuple[Row, ...]:
    return process(), stack("main", *JOIN), blocked("wait4", "process:4111", ran_at=START - 60)


def test_a_child_of_the_same_function_may_still_become_the_missing_rank() -> None:
    def rows(second: int) -> tuple[Row, ...]:
        waits = *spawned(4111, number=0), blocked("poll", pid=4111, ran_at=START - 60)
        loads = (
            *spawned(4112, f"train.py:{40 + second} load"),
            running(4112),
            thread(4112, slices=9 * second, run_s=second),
        )
        return *parent(), *waits, *loads

    found = diagnosed([snapshot(*rows(second), at=float(second)) for second in range(14)])
    assert found.verdict is not Verdict.HUNG


def test_so_may_one_of_which_only_the_name_of_its_process_is_known() -> None:
    def rows(second: int) -> tuple[Row, ...]:
        waits = *spawned(4111, number=0), blocked("poll", pid=4111, ran_at=START - 60)
        imports = stack("main", f"lib/site.py:{40 + second} addpackage", pid=4112), running(4112)
        named = KnownChild(pid=ROOT, child=4112, name="trainer-1")
        ran = thread(4112, slices=9 * second, run_s=second)
        return *parent(), *waits, process(4112, parent=ROOT), *imports, ran, named

    found = diagnosed([snapshot(*rows(second), at=float(second)) for second in range(14)])
    assert found.verdict is not Verdict.HUNG
    assert "process trainer-1" in {view.role for view in found.processes}


@pytest.mark.parametrize(("script", "verdict"), [("train.py", Verdict.SLOW), ("watch.py", Verdict.HUNG)])
def test_so_may_a_program_that_runs_the_same_script(script: str, verdict: Verdict) -> None:
    def rows(second: int) -> tuple[Row, ...]:
        first = frame("train.py:9 train", rank="0", world_size="2")
        waits = stack("main", "torch/distributed/rendezvous.py:190 _create_c10d_store", first, pid=4111)
        loads = stack("main", f"load.py:{40 + second} read", "job.py:1 <module>", pid=4112), running(4112)
        return (
            process(), stack("main", "subprocess.py:1264 Popen.wait", "train.py:20 <module>"),
            blocked("wait4", "process:4111", ran_at=START - 60),
            process(4111, parent=ROOT, cmdline=("python", "train.py", "0")), waits,
            blocked("poll", pid=4111, ran_at=START - 60),
            process(4112, parent=ROOT, cmdline=("python", script, "1")), *loads,
            thread(4112, slices=9 * second, run_s=second),
        )  # fmt: skip

    assert diagnosed([snapshot(*rows(second), at=float(second)) for second in range(14)]).verdict is verdict


@pytest.mark.parametrize(("number", "verdict"), [("1", Verdict.SLOW), ("0", Verdict.HUNG)])
def test_so_may_a_program_to_which_rank_0_gave_another_number(number: str, verdict: Verdict) -> None:
    """Lightning starts the other ranks from rank 0; what a rank starts for itself inherits the rank's own number."""
    environment = {"LOCAL_RANK": "0", "WORLD_SIZE": "2"}
    meets = "torch/distributed/rendezvous.py:190 _create_c10d_store"

    def rows(second: int) -> tuple[Row, ...]:
        first = frame("train.py:9 train", rank="0", world_size="2")
        waits = process(environment=environment), stack("main", meets, first), blocked("poll", ran_at=START - 60)
        imports = stack("main", f"lib/site.py:{40 + second} addpackage", "train.py:1 <module>", pid=4112), running(4112)
        given = {**environment, "LOCAL_RANK": number}
        started = process(4112, parent=ROOT, cmdline=("python", "train.py", "--data", "cats"), environment=given)
        return *waits, started, *imports, thread(4112, slices=9 * second, run_s=second)

    assert diagnosed([snapshot(*rows(second), at=float(second)) for second in range(14)]).verdict is verdict


def test_a_rank_that_nobody_is_about_to_become_never_came() -> None:
    found = said(*parent(), *spawned(4111, number=0), blocked("poll", pid=4111, ran_at=START - 60))
    assert found.findings[0].cause == "rendezvous"
    assert "never arrived" in found.findings[0].summary


def test_ranks_that_a_library_started_are_told_themselves_as_it_starts_as_many_as_it_is_told_to() -> None:
    agent = "/usr/lib/python3/site-packages/launch/local.py:366 wait"
    starts = process(), stack("main", agent), blocked("wait4", "process:4110", ran_at=START - 60)
    found = said(*starts, *rank(0, world_size=3), *rank(1, world_size=3))
    assert [suspect.role for suspect in found.findings[0].suspects] == ["rank 0", "rank 1"]


@pytest.mark.parametrize(("seconds", "hangs"), [(10, False), (40, True)])
def test_the_last_rank_to_come_is_given_time(seconds: int, *, hangs: bool) -> None:
    """The first one has been there for a minute, but all are there only since these seconds."""
    loads = process(4111, parent=ROOT), stack("main", "train.py:3 load", pid=4111)
    early = [
        snapshot(
            *launcher(), *rank(0), *loads, running(4111), thread(4111, slices=second, run_s=second), at=float(second)
        )
        for second in range(14)
    ]
    came = [
        snapshot(*launcher(), *rank(0), *rank(1), thread(4111, slices=99, run_s=14), at=14.0 + second)
        for second in range(seconds)
    ]
    assert (diagnosed([*early, *came]).verdict is Verdict.HUNG) == hangs


def test_a_process_that_was_started_like_a_rank_and_is_none_yet_is_the_missing_one() -> None:
    waits = *spawned(4111, number=0), blocked("poll", pid=4111, ran_at=START - 60)
    loads = *spawned(4112, "train.py:40 load"), blocked("read", pid=4112, ran_at=START - 60)

    (finding,) = said(*parent(), *waits, *loads).findings

    assert [suspect.pid for suspect in finding.suspects] == [4112]
    assert finding.summary.endswith("for process train (rank 1) in init_process_group")


SETS_UP = "train.py:41 set_up"


def gathers(number: int, line: str = SETS_UP, *, world_size: int = 3, **values: object) -> tuple[Row, ...]:
    """A rank in `init_process_group`, or wherever `line` leads, that has these values at hand."""
    plain = {name: zlib.crc32(repr(value).encode()) for name, value in {"rank": number, **values}.items()}
    called = msgspec.structs.replace(frame(line), plain=plain)
    inner = "torch/distributed/distributed_c10d.py:1899 init_process_group"
    pid, environment = 4110 + number, {"RANK": str(number), "WORLD_SIZE": str(world_size)}
    return (
        process(pid, parent=ROOT, environment=environment), stack("main", inner, called, pid=pid),
        blocked("poll", pid=pid, ran_at=START - 60),
    )  # fmt: skip


def odd_ones(*rows: tuple[Row, ...]) -> list[str]:
    """Who is named first, where it is not everybody."""
    found = said(*parent(), *(row for part in rows for row in part)).findings[0]
    assert found.cause == "rendezvous"
    names = [suspect.role for suspect in found.suspects]
    return names if "than most" in found.summary else []


def test_one_that_counts_its_attempts_otherwise_looks_under_another_prefix() -> None:
    assert odd_ones(gathers(0, attempt=0), gathers(1, attempt=1), gathers(2, attempt=0)) == ["rank 1"]


def test_what_only_rank_0_has_it_has_by_right() -> None:
    ranks = [gathers(number, attempt=int(number == 1), an_address=number == 0, world_size=4) for number in range(4)]
    assert odd_ones(*ranks) == ["rank 1"]
    assert odd_ones(gathers(0, is_master=True), gathers(1, is_master=False), gathers(2, is_master=False)) == []


def test_values_of_other_lines_are_others_by_right() -> None:
    later = gathers(1, "train.py:60 set_up_again", attempt=1)
    assert odd_ones(gathers(0, attempt=0), later, gathers(2, attempt=0)) == []


def test_of_two_none_is_the_odd_one() -> None:
    assert odd_ones(gathers(0, attempt=0), gathers(1, attempt=1)) == []


# Numbers

PORTS = "29500", "29500"


def numbered(
    *numbers: int, ports: tuple[str, ...] = (*PORTS, PORTS[0]), rank: str | None = None, called: bool = False
) -> Diagnosis:
    """Ranks that stand in `init_process_group`, with these numbers in their environments; `rank` is what its variable says. If
    `called`, its arguments tell where they meet.
    """
    rows: list[Row] = []
    for place, number in enumerate(numbers):
        pid = 4110 + place
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": ports[place], "WORLD_SIZE": "3"}
        given = {"RANK": str(number), **({} if called else address)}
        known = {"rank": str(place)} if rank else {}
        if called:
            known = {"rank": str(number), "world_size": "3", "init_method": f"tcp://127.0.0.1:{ports[place]}"}
        inner = frame(GATHERS[0], **known)
        rows += [
            process(pid, parent=ROOT, environment=given), stack("main", inner, GATHERS[1], pid=pid),
            blocked("poll", pid=pid, ran_at=START - 60),
        ]  # fmt: skip
    return said(*parent(), *rows)


@pytest.mark.parametrize("called", [False, True])
def test_two_ranks_have_the_same_number(*, called: bool) -> None:
    finding = numbered(0, 1, 1, called=called).findings[0]
    assert (finding.cause, [suspect.pid for suspect in finding.suspects]) == ("rendezvous", [4111, 4112])
    assert "pid 4111 and pid 4112 have the same number, rank 1, and no process is rank 2" in finding.summary


@pytest.mark.parametrize(
    "where", [{"ports": (*PORTS, "29600")}, {"ports": (*PORTS, "29600"), "called": True}, {"rank": "own"}]
)
def test_ranks_of_two_jobs_or_with_numbers_of_their_own_may(where: dict[str, object]) -> None:
    found = numbered(0, 1, 1, **where)  # type: ignore[arg-type]
    assert all("same number" not in finding.summary for finding in found.findings)
