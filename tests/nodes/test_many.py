"""A job on ten thousand machines: the right rank is named by the facts of a few of them, and what all say stays small."""

from __future__ import annotations

from itertools import islice
from threading import Event

import pytest
from msgspec import structs

from mpmon.diagnosis.findings import Observation, Verdict
from mpmon.nodes import front, wire
from mpmon.nodes.choose import FEW, MOST, Picks
from mpmon.nodes.digest import Class, Digest, Kind
from mpmon.nodes.fleet import Fleet
from mpmon.nodes.front import NodesWatch
from mpmon.nodes.join import Joiner, Part
from mpmon.nodes.members import State
from mpmon.nodes.ras import RasOfNodes
from mpmon.nodes.transports import Trouble
from mpmon.probes.nccl_ras import NoAnswer
from mpmon.session.watch import Observer
from mpmon.spans import Spans, count, has
from tests.nodes.many import ON_A_NODE, Names, Simulated, machine
from tests.probes.ras_server import answer, communicator, missing, rank, ras, says

ROUNDS = 2
"""Recordings have three, of which the first shows nothing yet."""

CAUSES = {"worker": "worker-stuck", "mismatch": "collective-mismatch", "stop": "stopped"}


def watched(
    monkeypatch: pytest.MonkeyPatch, case: str, nodes: int, fleet: type[Simulated] = Simulated
) -> tuple[list[Observation], Simulated]:
    monkeypatch.setattr(front, "Fleet", fleet)
    monkeypatch.setattr(Simulated, "case", case)
    monkeypatch.setattr(Simulated, "culprit", nodes // 2 + 7)
    watch = NodesWatch(Names(nodes), wire.Watch(interval=0.0))
    seen = []
    for observation in islice(watch, ROUNDS + 1):
        seen.append(observation)
        if len(seen) == ROUNDS + 1:
            watch.stop()
    assert isinstance(watch._fleet, Simulated)
    return seen, watch._fleet


@pytest.mark.parametrize(
    ("case", "nodes"), [*((case, nodes) for case in CAUSES for nodes in (20, 1_000)), ("worker", 10_000)]
)
def test_the_right_rank_of_all(monkeypatch: pytest.MonkeyPatch, case: str, nodes: int) -> None:
    seen, fleet = watched(monkeypatch, case, nodes)
    said = seen[-1].diagnosis
    assert said.verdict is Verdict.HUNG
    assert said.findings[0].cause == CAUSES[case]
    assert {suspect.rank for suspect in said.findings[0].suspects} == {(nodes // 2 + 7) * ON_A_NODE + 1}
    if nodes <= MOST:
        assert set(fleet.asked) == {nodes}
        return
    assert fleet.asked[0] == 0
    assert max(fleet.asked) <= FEW + 1
    assert max(len(each.snapshot.processes) for each in seen) <= (FEW + 1) * 6 + 1
    assert fleet.bytes[0] < 600 * nodes
    assert fleet.bytes[-1] < 200 * nodes + 50_000 * max(fleet.asked)


def test_nodes_that_are_not_asked_have_neither_ended_nor_just_begun() -> None:
    observer, joiner, rounds = Observer(), Joiner(), machine("worker", "h1")
    seen = None
    for at, names in enumerate(("a", "ab", "b", "ab")):
        taken_at = rounds[0].taken_at + at
        parts = [Part(host=name, snapshot=structs.replace(rounds[0], taken_at=taken_at)) for name in names]
        seen = observer.see(joiner.join(parts))
    assert seen
    assert {event.kind for event in seen.events} & {"born", "died", "restarted"} == set()


class Cut(Simulated):
    """One node falls silent after the second question."""

    def ask(self, number: int, facts: Spans | None = None) -> None:
        if number > 2:
            self._nodes[3].state = State.LOST
            self._nodes[3].problem = Trouble("lost its agent (status 255)")
        super().ask(number, facts)


def test_a_node_that_is_lost_is_told_with_its_ranks_and_blamed_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, _ = watched(monkeypatch, "worker", 20, Cut)
    (lost,) = [row for row in seen[-1].snapshot.nodes if row.problem]
    assert (lost.host, lost.problem) == ("n3", "lost its agent (status 255); ranks 6-7 run there")
    (told,) = [row.problem for row in seen[-1].snapshot.probes if row.name == "n3"]
    assert told == lost.problem
    (finding,) = seen[-1].diagnosis.findings
    assert {suspect.rank for suspect in finding.suspects} == {35}


class Dead(Simulated):
    """Three nodes are not up."""

    def __enter__(self) -> Fleet:
        fleet = super().__enter__()
        for node in self._nodes[3:6]:
            node.state, node.problem = State.OUT, Trouble("cannot be reached")
        return fleet


def test_three_of_a_thousand_that_are_dead_keep_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, fleet = watched(monkeypatch, "worker", 1_000, Dead)
    said = seen[-1].diagnosis
    (unreachable,) = [row for row in said.remarks if row.topic == "node-unreachable"]
    assert unreachable.summary == "3 of 1000 machines do not answer: n3, n4 and n5"
    assert {suspect.rank for suspect in said.findings[0].suspects} == {(500 + 7) * ON_A_NODE + 1}
    assert max(fleet.asked) <= FEW + 1


def test_a_machine_that_somebody_enters_is_asked_for_its_facts_and_all_tell_how_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(front, "Fleet", Simulated)
    monkeypatch.setattr(Simulated, "case", "worker")
    monkeypatch.setattr(Simulated, "culprit", 7)
    watch, seen = NodesWatch(Names(100), wire.Watch(interval=0.0)), []
    for observation in islice(watch, 4):
        seen.append({row.host for row in observation.snapshot.nodes if row.taken_at is not None})
        assert len(observation.snapshot.nodes) == 100
        assert {row.ranks for row in observation.snapshot.nodes if row.host == "n50"} == {((100, 101),)}
        watch.enter("n50")
        if len(seen) == 4:
            watch.stop()
    assert "n50" not in seen[0]
    assert seen[-1] == seen[0] | {"n50"}
    assert "n50" in {row.host for row in observation.snapshot.processes}


# Whose facts


def standing(does: str, first: int, last: int) -> Class:
    ranks = ((first * ON_A_NODE, last * ON_A_NODE + 1),)
    return Class(kind=Kind(role="rank", waits=does), does=does, ranks=ranks, nodes=((0, 0),), first=(0, 0))


def told(**places: tuple[int, int]) -> dict[int, tuple[Digest, float]]:
    return {
        at: ((standing(does, at, at),), 0.0) for does, (first, last) in places.items() for at in range(first, last + 1)
    }


def test_of_few_machines_all_are_asked_from_the_first_question_on() -> None:
    picks = Picks(MOST)
    assert count(picks.asked) == MOST
    assert not picks.hear(told(waits=(0, MOST - 1)))
    assert picks.elsewhere(range(MOST)) == ()


def test_who_was_asked_stays_so_while_there_is_room() -> None:
    picks = Picks(1000)
    assert picks.asked == ()
    assert picks.hear(told(waits=(0, 998), sleeps=(999, 999)))
    assert picks.asked == ((0, 0), (999, 999))
    assert not picks.hear(told(waits=(0, 999)))
    assert picks.hear(told(waits=(0, 997), reads=(998, 998), sleeps=(999, 999)))
    assert picks.asked == ((0, 0), (998, 999))
    for at in range(1, 100):
        picks.hear(told(waits=(0, at), reads=(at + 1, at + 1), rests=(at + 2, 999)))
        assert has(picks.asked, at + 1)
        assert count(picks.asked) <= MOST


def test_machines_whose_processes_have_no_rank_are_asked_as_far_as_there_is_room() -> None:
    picks = Picks(1000)
    assert picks.hear(dict.fromkeys(range(5, 1000), ((), 0.0)))
    assert picks.asked == ((5, 4 + MOST),)


def test_the_others_are_told_of_by_what_they_say_in_our_time() -> None:
    picks = Picks(1000)
    late = Class(
        kind=Kind(role="rank", waits="waits"),
        does="waits",
        ranks=((8, 9),),
        nodes=((0, 0),),
        first=(0, 0),
        oldest=90.0,
        newest=90.0,
    )
    picks.hear({3: ((standing("sleeps", 3, 3),), 0.0), 4: ((late,), 60.0)})
    (row,) = picks.elsewhere([3])
    assert (row.ranks, row.does, row.since) == (((8, 9),), "waits", 30.0)


def test_nccl_is_asked_once_for_all_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "Fleet", Simulated)
    monkeypatch.setattr(Simulated, "case", "worker")
    monkeypatch.setattr(Simulated, "culprit", 7)
    with ras(
        says(answer(communicator(rank(0, 99, host="n3", AllReduce=4), missing=(missing(1, 98, host="n9"),))))
    ) as at:
        watch = NodesWatch(Names(20), wire.Watch(interval=0.0), ras=at[0])
        seen = []
        for observation in watch:
            seen.append(observation)
            said = [row.problem or "" for row in observation.snapshot.probes if row.name == "NCCL RAS"]
            if any("pid 98 on n9" in problem for problem in said) or len(seen) == ROUNDS + 200:
                watch.stop()
    assert any("rank 1 (pid 98 on n9) of communicator 0x2f3a:0x99:0x7 is silent" in problem for problem in said), said
    assert at[1].count("VERBOSE STATUS") == 1


def test_where_nobody_listens_a_few_nodes_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "Fleet", Simulated)
    with ras(says(b"")) as at:
        closed = at[0]
    watch = NodesWatch(Names(20), wire.Watch(interval=0.0))
    with watch._fleet as fleet, pytest.raises(NoAnswer, match="on n2 is not reached: Connection refused"):
        RasOfNodes(fleet, Event())(closed)
