"""One machine of a larger job: who waits for ranks elsewhere is told so, and nobody here is blamed for it."""

from __future__ import annotations

import msgspec
import pytest

from mpmon.diagnosis import diagnose
from mpmon.diagnosis.findings import Diagnosis, Finding, Verdict
from mpmon.diagnosis.ranks.starts import Starts
from mpmon.model import Elsewhere, JoinTarget, Node, Process, Row
from mpmon.nodes.join import Part, join
from tests.builders import ROOT, START, blocked, history, process, snapshot, stack, thread, watched

FIRST = 4121
TORCH = "torch/distributed/distributed_c10d.py"
CALLS = {"all_reduce": f"{TORCH}:3252 all_reduce", "barrier": f"{TORCH}:5010 barrier"}
AGENT = ("torch/distributed/elastic/agent/server/api.py:900 _invoke_run", "torch/distributed/run.py:918 main")


def environment(number: int, *, world: int = 8, local: int | None = 4, address: str = "n1") -> dict[str, str]:
    """What torchrun gives a rank; what somebody who starts ranks by hand gives it, where `local` is not told."""
    by_hand = {"RANK": str(number), "WORLD_SIZE": str(world), "MASTER_ADDR": address, "MASTER_PORT": "29500"}
    if local is None:
        return by_hand
    return {**by_hand, "LOCAL_RANK": str(number % local), "LOCAL_WORLD_SIZE": str(local)}


def wait_state(number: int, *frames: str, **more: object) -> tuple[Row, ...]:
    """A rank that stands still in these frames."""
    pid = FIRST + number
    kept, parent = more.pop("kept", None) or environment(number), more.pop("parent", ROOT)
    return (
        process(pid, parent=parent, environment=kept), thread(pid), thread(pid, pid + 60, name="pt_gloo_runloop"),
        stack("main", *frames, pid=pid), blocked("futex", f"futex:{pid}:0x70", pid=pid, ran_at=START - 60),
    )  # fmt: skip


def rank(number: int, operation: str = "all_reduce", group: tuple[int, ...] = (), **more: object) -> tuple[Row, ...]:
    """A rank that waits in a collective."""
    pid = FIRST + number
    rows = wait_state(number, CALLS[operation], "train.py:45 main", **more)
    return (*rows, JoinTarget(pid=pid, tid=pid, kind="work", members=group))


def launcher() -> tuple[Row, ...]:
    return (
        process(cmdline=("python", "torchrun", "train.py")),
        stack("main", *AGENT),
        blocked("clock_nanosleep", ran_at=START),
    )


def said(*ranks: tuple[Row, ...], elsewhere: tuple[Elsewhere, ...] = (), nodes: tuple[Node, ...] = ()) -> Diagnosis:
    rows = (*launcher(), *(row for part in ranks for row in part))
    return watched(msgspec.structs.replace(snapshot(*rows), elsewhere=elsewhere, nodes=nodes))


def only(found: Diagnosis) -> Finding:
    assert found.verdict is Verdict.HUNG
    (finding,) = found.findings
    return finding


def test_ranks_that_wait_for_ranks_elsewhere_are_not_to_blame() -> None:
    finding = only(said(*(rank(number) for number in range(4))))
    assert finding.cause == "ranks-elsewhere"
    assert finding.suspects == ()
    assert finding.summary == "ranks 0-3 wait for ranks 4-7, which run on other machines"
    assert finding.evidence[0] == "ranks 0-3: all_reduce at train.py:45 in main"
    assert {waiter.role for waiter in finding.waiters} >= {"rank 0", "rank 1", "rank 2", "rank 3"}


def test_of_two_collectives_of_one_machine_neither_is_blamed_while_others_could_be_in_either() -> None:
    finding = only(said(rank(0), rank(1, "barrier"), rank(2), rank(3)))
    assert (finding.cause, finding.suspects) == ("ranks-elsewhere", ())
    assert set(finding.evidence) >= {
        "ranks 0 and 2-3: all_reduce at train.py:45 in main", "rank 1: barrier at train.py:45 in main",
    }  # fmt: skip


def test_a_rank_of_this_machine_that_keeps_the_others_waiting_is_named_as_ever() -> None:
    sleeps = wait_state(3, "train.py:80 save")
    found = said(*(rank(number) for number in range(3)), sleeps)
    assert [suspect.role for suspect in only(found).suspects] == ["rank 3"]


def test_a_group_of_which_all_ranks_run_here_waits_for_nobody_elsewhere() -> None:
    pair = (0, 1)
    found = said(
        rank(0, group=pair),
        rank(1, "barrier", group=pair),
        wait_state(2, "train.py:1 main"),
        wait_state(3, "train.py:1 main"),
    )
    assert "collective-mismatch" in {finding.cause for finding in found.findings}


@pytest.mark.parametrize("call", ["recv", "irecv"])
def test_who_waits_for_one_rank_elsewhere_names_it(call: str) -> None:
    frame = f"{TORCH}:2100 {call}"
    finding = only(said(with_source(0, frame, "6"), *(rank(number) for number in range(1, 4))))
    assert finding.cause == "ranks-elsewhere"


def with_source(number: int, frame: str, source: str) -> tuple[Row, ...]:
    from tests.builders import frame as made

    pid = FIRST + number
    return (
        process(pid, parent=ROOT, environment=environment(number)), thread(pid),
        thread(pid, pid + 60, name="pt_gloo_runloop"), stack("main", made(frame, src=source), "train.py:45 main", pid=pid),
        blocked("futex", f"futex:{pid}:0x70", pid=pid, ran_at=START - 60),
    )  # fmt: skip


# The rendezvous

GATHERS = (f"{TORCH}:1700 init_process_group", "train.py:4 main")


def test_ranks_elsewhere_that_have_not_come_may_have_been_started_all_the_same() -> None:
    finding = only(said(*(wait_state(number, *GATHERS) for number in range(4))))
    assert (finding.cause, finding.suspects) == ("ranks-elsewhere", ())
    assert finding.summary == "ranks 0-3 wait for ranks 4-7, which run on other machines"


def test_a_rank_of_this_machine_that_was_never_started_is_missed() -> None:
    kept = {number: environment(number, world=2, local=2) for number in range(2)}
    finding = only(said(wait_state(0, *GATHERS, kept=kept[0])))
    assert finding.cause == "rendezvous"
    assert "rank 1 never arrived" in finding.summary


def test_where_nobody_tells_how_many_run_here_another_address_tells_that_some_do_not() -> None:
    finding = only(said(*(wait_state(number, *GATHERS, kept=environment(number, local=None)) for number in range(2))))
    assert (finding.cause, finding.suspects) == ("ranks-elsewhere", ())
    assert finding.summary == "ranks 0-1 wait for ranks 2-7, which do not run here"


def test_where_all_look_at_this_machine_who_never_came_is_missed_here() -> None:
    kept = environment(0, world=2, local=None, address="127.0.0.1")
    assert only(said(wait_state(0, *GATHERS, kept=kept))).cause == "rendezvous"


# What other machines say of theirs


def others(**more: object) -> Elsewhere:
    row = Elsewhere(
        since=START - 60,
        ranks=((4, 7),),
        does="waiting for all_reduce in main() at train.py:45",
        operation="all_reduce",
    )
    return msgspec.structs.replace(row, **more)


def test_ranks_elsewhere_that_are_in_the_same_collective_are_not_waited_for() -> None:
    sleeps = wait_state(3, "train.py:80 save")
    found = only(said(rank(0), rank(1), rank(2), sleeps, elsewhere=(others(),)))
    assert [suspect.role for suspect in found.suspects] == ["rank 3"]


def test_ranks_elsewhere_that_do_something_else_are_what_is_waited_for() -> None:
    row = others(does="asleep in download() at job.py:3", operation=None)
    finding = only(said(*(rank(number) for number in range(4)), elsewhere=(row,)))
    assert finding.summary == "ranks 0-3 wait for ranks 4-7, asleep in download() at job.py:3"


def test_who_waits_for_ranks_that_get_on_is_slow_at_most() -> None:
    row = others(does="which make progress", operation=None, since=None)
    found = said(*(rank(number) for number in range(4)), elsewhere=(row,))
    assert found.verdict is Verdict.SLOW


def test_a_rank_stands_for_those_like_it() -> None:
    """Of three at hand one is in all_reduce, and two stand in a barrier; the many elsewhere are all like the first."""
    kept = {number: environment(number, world=1000, local=3) for number in range(3)}
    ranks = rank(0, kept=kept[0]), rank(1, "barrier", kept=kept[1]), rank(2, "barrier", kept=kept[2])
    finding = only(said(*ranks, elsewhere=(others(ranks=((3, 999),), like=0),)))
    assert finding.cause == "collective-mismatch"
    assert {suspect.role for suspect in finding.suspects} == {"rank 1", "rank 2"}


def test_machines_that_do_not_answer_are_named() -> None:
    nodes = (Node(host="n1", number=1), Node(host="n2", number=2, problem="does not answer"))
    finding = only(said(*(rank(number) for number in range(4)), nodes=nodes))
    assert finding.summary == "ranks 0-3 wait for ranks 4-7, which run on hosts that do not answer (n2)"
    assert "n2 does not answer" in finding.evidence


# torchrun starts the job again


def of_start(number: int, count: int, **more: str) -> dict[str, str]:
    run = {"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": str(count)}
    return {**environment(number, world=4, local=2), **run, **more}


@pytest.mark.parametrize(
    ("parent", "more"),
    [(ROOT, {}), (ROOT + 1, {"MASTER_PORT": "29600"}), (ROOT + 1, {"WORLD_SIZE": "6"})],
    ids=["of one agent", "at another port", "of another size"],
)
def test_ranks_of_an_earlier_start_are_not_waited_for(parent: int, more: dict[str, str]) -> None:
    """The agent of ranks 2 and 3 has not ended them yet."""
    late = (rank(number, "barrier", kept=of_start(number, 0, **more), parent=parent) for number in (2, 3))
    finding = said(*(rank(number, kept=of_start(number, 1)) for number in (0, 1)), *late).findings[0]
    assert finding.summary == "ranks 0-1 wait for ranks 2-3, which run on other machines"


def test_an_agent_of_which_no_rank_has_failed_counts_less_for_the_same_start() -> None:
    """Agents count the failures of their own ranks only."""
    calm = (
        rank(number, "barrier" if number == 3 else "all_reduce", kept=of_start(number, 0), parent=ROOT + 1)
        for number in (2, 3)
    )
    finding = said(*(rank(number, kept=of_start(number, 1)) for number in (0, 1)), *calm).findings[0]
    assert finding.cause == "collective-mismatch"
    assert {suspect.role for suspect in finding.suspects} == {"rank 3"}


def test_the_rank_that_was_started_in_place_of_another_is_the_one() -> None:
    """Its agent died and left it over, and another machine got its number."""

    def on(host: str, number: int, pid: int, **more: object) -> Process:
        kept = of_start(number, 0)
        return msgspec.structs.replace(process(pid, environment=kept, **more), host=host)

    left, new = on("h1", 2, 7, start_time=START - 90), on("h2", 2, 8, start_time=START - 30)
    helper = on("h2", 2, 9, parent=8, start_time=START - 5)
    starts = Starts([left, new, helper, on("h1", 1, 6, start_time=START - 90)])
    assert [starts.is_earlier(row) for row in (left, new, helper)] == [True, False, False]


# Clocks


def test_wrong_clocks_and_recordings_that_lie_apart_are_remarked() -> None:
    rows = process(), thread()
    skewed = Part(host="b", offset_s=3600.0, snapshot=snapshot(*rows, at=3600.0))
    late = Part(host="c", later_s=60.0, snapshot=snapshot(*rows, at=-60.0))
    found = diagnose(history(join([Part(host="a", snapshot=snapshot(*rows)), skewed, late])))
    assert {row.topic: row.summary for row in found.remarks} == {
        "clock-skew": "clocks of machines are wrong: b by 1 h ahead",
        "recordings-apart": "the recordings were not made at the same time: that of c 1 min before the last one",
    }
