"""What NCCL's RAS says of the ranks of a hang: who is behind, who does not answer, and when it is asked at all."""

from __future__ import annotations

import time
from itertools import count
from typing import Any

import msgspec
import pytest

from mpmon.diagnosis.findings import Certainty, Diagnosis, Verdict
from mpmon.diagnosis.thresholds import GPU_STANDS_LONG_S
from mpmon.model import PIDS_OF_A_HOST, Node, Row, Snapshot
from mpmon.probes.nccl_ras import communicators
from mpmon.session import nccl_ras
from mpmon.session.nccl_ras import REST_S, NcclRas, Said, rows
from mpmon.session.watch import Observer
from tests.builders import ROOT, START, blocked, diagnosed, process, snapshot, stack, thread
from tests.diagnosis.gpu_jobs import rounds, synchronize
from tests.patience import becomes
from tests.probes.ras_server import ADDRESS, answer, communicator, missing, rank, ras, says

PIDS = (4110, 4111, 4112)
C10D = "torch/distributed/distributed_c10d.py"


def stands(number: int, function: str) -> tuple[Row, ...]:
    pid = PIDS[number]
    return (
        process(pid, parent=ROOT, environment={"RANK": str(number), "WORLD_SIZE": "3"}), thread(pid),
        stack("main", f"{C10D}:2700 {function}", f"train.py:{50 + number} run", pid=pid),
        blocked("futex", pid=pid, ran_at=START - 20),
    )  # fmt: skip


JOINS = (
    process(), thread(), stack("main", "torch/multiprocessing/spawn.py:140 join", "train.py:75 <module>"),
    blocked("poll", *(f"process:{pid}" for pid in PIDS), ran_at=START - 60),
)  # fmt: skip

HUNG = msgspec.structs.replace(
    snapshot(*JOINS, *(row for number in range(3) for row in stands(number, "all_reduce"))),
    addresses=(ADDRESS, "2001:db8::2"),
)


def status(*counts: int, more: tuple[dict[str, Any], ...] = (), **given: Any) -> Said:
    ranks = [rank(number, PIDS[number], AllReduce=value) for number, value in enumerate(counts)]
    text = answer(communicator(*ranks, *more, **given))
    return Said(START + 3, communicators(text))


def told(said: Said, shown: Snapshot = HUNG) -> Diagnosis:
    """As it is judged with that answer."""
    added = rows(said, shown)
    return diagnosed([
        msgspec.structs.replace(
            shown, taken_at=START + second, flight_records=added.records, collectives=added.collectives
        )
        for second in range(13)
    ])  # fmt: skip


def test_the_rank_that_has_issued_less_than_its_peers_is_named() -> None:
    (finding,) = told(status(7, 6, 7)).findings
    assert (finding.cause, finding.certainty) != ("main-stuck", Certainty.POSSIBLE)
    assert finding.certainty is not Certainty.PROVED, "launches are counted, not ends"
    assert [row.role for row in finding.suspects] == ["rank 1"]
    assert any("rank 1 has enqueued collective 6" in line for line in finding.evidence), finding.evidence


def test_equal_counts_prove_nothing() -> None:
    without = told(Said(START + 3))
    assert told(status(7, 7, 7)).findings == without.findings


@pytest.mark.parametrize(
    "said",
    [
        status(7, 6, missing=(missing(2, PIDS[2]),)),
        status(7, 6, size=3),
        status(7, 6, more=(rank(2, 9999, AllReduce=7),)),
        status(7, 6, more=(rank(2, PIDS[2], host="192.0.2.9", AllReduce=7),)),
    ],
    ids=["one does not answer", "one is not told", "another process", "the same number elsewhere"],
)
def test_a_rank_that_was_not_heard_is_not_laid_against_others(said: Said) -> None:
    named = {row.role for finding in told(said).findings for row in finding.suspects}
    assert "rank 2" not in named or len(named) > 1


def test_who_does_not_answer_is_told() -> None:
    added = rows(status(7, missing=(missing(1, PIDS[1]), missing(2, PIDS[2], dead=True))), HUNG)
    assert added.records == (), "how far these are nobody knows"
    assert "rank 2 (pid 4112 on 192.0.2.2) of communicator 0x2f3a:0x99:0x7 is dead, says NCCL" in added.problem
    assert "rank 1 (pid 4111 on 192.0.2.2) of communicator 0x2f3a:0x99:0x7 is silent" in added.problem
    assert {row.table for row in added.unknowns} == {"flight_records"}


def test_one_that_is_behind_on_a_machine_that_is_not_looked_at_is_told() -> None:
    added = rows(status(7, 7, more=(rank(2, 77, host="192.0.2.9", AllReduce=5),)), HUNG)
    assert added.problem == (
        "rank 2 (pid 77 on 192.0.2.9) of communicator 0x2f3a:0x99:0x7 is behind the others (5 operations issued, others up to "
        "7), and not among the visible processes"
    )
    assert {row.pid for row in added.records} == {PIDS[0], PIDS[1]}


def test_ranks_of_several_machines_are_found_by_address_and_pid() -> None:
    """The third has an address of a container network that the first has, too."""
    first, second, third = (number * PIDS_OF_A_HOST + 12 for number in (1, 2, 3))
    network = "172.17.0.2"
    shown = Snapshot(
        taken_at=START, root_pid=1, root_start_time=START, host="h1, h2",
        processes=(process(first), process(second), process(third)),
        nodes=(
            Node(host="h1", number=1, taken_at=START, addresses=("10.0.0.1", network)),
            Node(host="h2", number=2, taken_at=START, addresses=("10.0.0.2",)),
            Node(host="h3", number=3, taken_at=START, addresses=(network,)),
        ),
    )  # fmt: skip
    peers = (("10.0.0.1", 4), ("10.0.0.2", 3), (network, 4))
    text = answer(communicator(*(rank(at, 12, host=host, AllReduce=issued) for at, (host, issued) in enumerate(peers))))
    added = rows(Said(START, communicators(text)), shown)
    assert {row.pid: row.groups[0].enqueued for row in added.records} == {first: 4, second: 3}
    assert f"rank 2 (pid 12 on {network})" in added.problem


# When it is asked


class Hang:
    """Rounds of a job, and its RAS."""

    def __init__(self, ras: NcclRas) -> None:
        self.ras = ras
        self.observer = Observer(None, ras)
        self.seconds = count()
        self.at = 0.0

    def round(self, shown: Snapshot = HUNG) -> Diagnosis:
        self.at = float(next(self.seconds))
        found = self.observer.see(self.ras.add(msgspec.structs.replace(shown, taken_at=START + self.at))).diagnosis
        assert becomes(lambda: not self.ras.is_asking, pause_s=0.01)
        return found


def test_it_is_asked_once_a_hang_and_the_next_round_says_more() -> None:
    text = answer(communicator(*(rank(number, pid, AllReduce=7 - (number == 1)) for number, pid in enumerate(PIDS))))
    with ras(says(text)) as (address, heard):
        hang = Hang(NcclRas(address, lambda: START + hang.at))
        while hang.round().verdict is not Verdict.HUNG:
            assert heard == [], "nobody is asked before"
        for _ in range(20):
            last = hang.round()
    assert [row.role for row in last.findings[0].suspects] == ["rank 1"]
    assert heard.count("connected") == heard.count("VERBOSE STATUS") == 1


def test_a_look_does_not_end_while_it_may_yet_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NcclRas, "is_asking", property(lambda _: True))
    observer = Observer(None, NcclRas(nccl_ras.Address("127.0.0.1", 1), lambda: START))
    rounds = [observer.see(msgspec.structs.replace(HUNG, taken_at=START + second)) for second in range(20)]
    assert rounds[-1].diagnosis.verdict is Verdict.HUNG
    assert not any(row.diagnosis.settled for row in rounds)


def test_hangs_that_come_and_go_do_not_make_it_asked_again_and_again() -> None:
    now = START
    with ras(says(answer())) as (address, heard):
        asked = NcclRas(address, lambda: now)
        for pause in (0.0, 10.0, REST_S):
            now += pause
            asked.see(Verdict.HUNG, PIDS)
            while asked.is_asking:
                time.sleep(0.01)
            asked.see(Verdict.HEALTHY, PIDS)
    assert heard.count("VERBOSE STATUS") == 2


def test_ranks_whose_gpus_have_only_spun_for_long_are_asked_about_once() -> None:
    with ras(says(answer())) as (address, heard):
        asked = NcclRas(address, lambda: START)
        observer = Observer(None, asked)
        for seen in rounds(90, synchronize):
            assert observer.see(seen).diagnosis.verdict is not Verdict.HUNG
            assert becomes(lambda: not asked.is_asking, pause_s=0.01)
            assert ("VERBOSE STATUS" in heard) is (seen.taken_at - START >= GPU_STANDS_LONG_S)
    assert heard.count("VERBOSE STATUS") == 1


@pytest.mark.parametrize(("verdict", "ranks"), [(Verdict.HEALTHY, PIDS), (Verdict.SLOW, PIDS), (Verdict.HUNG, ())])
def test_who_does_not_hang_or_has_no_ranks_is_not_asked(verdict: Verdict, ranks: tuple[int, ...]) -> None:
    with ras(says(answer())) as (address, heard):
        NcclRas(address, lambda: START).see(verdict, ranks)
    assert heard == []


def test_what_goes_wrong_is_one_sentence_and_the_watch_goes_on() -> None:
    with ras(says(b"", {"SET FORMAT json": b"ERROR: Unknown command\n"})) as (address, _):
        hang = Hang(NcclRas(address, lambda: START + hang.at))
        last = [hang.round() for _ in range(20)][-1]
        shown = hang.ras.add(HUNG)
    assert last.verdict is Verdict.HUNG
    problem = f"{address} is of NCCL older than 2.28.7, whose RAS does not speak JSON"
    assert [(row.name, row.ok, row.problem) for row in shown.probes] == [("NCCL RAS", False, problem)]
    assert [row.reason for row in shown.unknowns] == [f"NCCL RAS: {problem}"]
