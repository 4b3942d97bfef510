"""Classes of ranks that stand alike: joined in any way they are the same, and few machines answer for ten thousand."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpmon.codec import encode
from mpmon.diagnosis import diagnose
from mpmon.diagnosis.findings import Diagnosis, Verdict
from mpmon.diagnosis.state.history import History
from mpmon.model import Figures
from mpmon.nodes.choose import FEW, MOST, Picks, choose, elsewhere
from mpmon.nodes.digest import LONGEST, MOST_CLASSES, Class, Digest, Kind, digest, in_time, of_last_start, union
from mpmon.nodes.join import Joiner, Part
from mpmon.spans import Spans, count, has, spans
from tests.builders import START, blocked, history, process, snapshot, stack, thread
from tests.nodes.many import ON_A_NODE, as_node, machine, moved, seen
from tests.nodes.recorded import HOSTS

# Joining

kinds = st.builds(
    Kind, role=st.sampled_from(("rank", "dataloader worker")), waits=st.sampled_from(("", "a", "b")),
    group=st.sampled_from(((), ((0, 3),))), meets=st.sampled_from(("", "a")),
)  # fmt: skip


@st.composite
def classes(draw: st.DrawFn) -> Class:
    rank = draw(st.integers(0, 30))
    since = draw(st.none() | st.floats(0.0, 9.0))
    node = rank // ON_A_NODE
    return Class(
        kind=draw(kinds),
        does=draw(st.sampled_from(("", "asleep", "waiting"))),
        ranks=((rank, rank),),
        nodes=((node, node),),
        first=(rank, node),
        oldest=since,
        newest=since,
        starts=draw(st.integers(0, 2)),
    )


digests = st.lists(classes(), max_size=6).map(union)


@given(digests, digests, digests)
def test_it_does_not_matter_who_joins_whom(one: Digest, other: Digest, third: Digest) -> None:
    assert union(one, other) == union(other, one)
    assert union(union(one, other), third) == union(one, union(other, third)) == union(one, other, third)
    assert union(one, one) == one == union(one)
    assert union(union(one, other), other) == union(one, other)


# One machine


def test_ranks_that_stand_alike_are_one_class() -> None:
    (row,) = digest(seen(machine("worker", "h1")), 7)
    assert (row.kind.role, row.does) == ("rank", "waiting for all_reduce in main() at train.py:49")
    assert (row.kind.operation, row.ranks, row.nodes, row.first) == ("all_reduce", ((0, 1),), ((7, 7),), (0, 7))
    assert row.oldest is not None
    assert row.newest is not None
    assert row.oldest <= row.newest


def test_who_keeps_a_rank_waiting_is_a_class_of_its_own() -> None:
    found = {(row.kind.role, row.ranks): row.does for row in digest(seen(machine("worker", "h2")), 1)}
    assert found == {
        ("rank", ((2, 2),)): "waiting for all_reduce in main() at train.py:49",
        ("rank", ((3, 3),)): "waiting for next batch in main() at train.py:45",
        ("dataloader worker", ((3, 3),)): "blocked in open() of a named pipe in Shards.__getitem__() at train.py:31",
    }


def test_clocks_are_put_right() -> None:
    (row,) = digest(seen(machine("worker", "h1")), 7)
    (late,) = in_time((row,), 60.0)
    assert (late.oldest, late.newest) == ((row.oldest or 0) - 60.0, (row.newest or 0) - 60.0)


def test_what_a_machine_says_is_bounded() -> None:
    """Each of a thousand ranks stands at a line of its own, in a function with an endless name."""
    rows = [
        row for number in range(1000) for row in (
            process(5000 + number, parent=4100, environment={"RANK": str(number), "WORLD_SIZE": "1000"}),
            thread(5000 + number), blocked("clock_nanosleep", pid=5000 + number, ran_at=START - 60),
            stack("main", f"train.py:{number + 1} {'f' * 9999}", pid=5000 + number),
        )
    ]  # fmt: skip
    first = snapshot(process(), *rows)
    rounds = (msgspec.structs.replace(first, taken_at=START + second) for second in range(3))
    found = digest(history(*rounds), 1)
    assert len(found) <= MOST_CLASSES
    assert sum(count(row.ranks) for row in found if row.kind.role == "rank") == 1000
    assert sum(len(encode(row)) for row in found) < MOST_CLASSES * (LONGEST + 300)


def restarted(node: int, *starts: tuple[int, int, str]) -> Digest:
    """A machine with ranks of one agent: the number of each, how often it was started before, and where it meets the others."""
    rows = [
        row for at, (number, count, port) in enumerate(starts) for row in (
            process(5000 + at, parent=4100, environment={
                "RANK": str(number), "WORLD_SIZE": "8", "MASTER_ADDR": "n0", "MASTER_PORT": port,
                "TORCHELASTIC_RUN_ID": "cats", "TORCHELASTIC_RESTART_COUNT": str(count),
            }),
            thread(5000 + at), blocked("clock_nanosleep", pid=5000 + at, ran_at=START - 60),
            stack("main", "train.py:7 f", pid=5000 + at),
        )
    ]  # fmt: skip
    first = snapshot(process(), *rows)
    return digest(history(*(msgspec.structs.replace(first, taken_at=START + second) for second in range(3))), node)


def test_ranks_of_several_starts_of_a_job_are_kept_apart() -> None:
    (of_one_agent,) = restarted(0, (0, 0, "29500"), (0, 1, "29600"), (1, 1, "29600"))
    left_over = restarted(1, (2, 0, "29500"), (3, 0, "29500"))
    calm = restarted(2, (2, 0, "29600"), (3, 0, "29600"))
    (row,) = of_last_start(union((of_one_agent,), left_over, calm))

    assert (of_one_agent.ranks, of_one_agent.starts) == (((0, 1),), 1)
    assert (row.ranks, row.nodes) == (((0, 3),), ((0, 0), (2, 2)))


def test_ranks_of_a_start_that_is_over_hide_nobody() -> None:
    """They have the numbers of ranks of which no facts are at hand."""
    picks = Picks(100)
    now = restarted(0, (0, 1, "29600"), (1, 1, "29600"))
    told = {at: (moved(now, at), 0.0) for at in range(99)} | {
        99: (restarted(99, (8, 0, "29500"), (9, 0, "29500")), 0.0)
    }
    picks.hear(told)
    assert picks.asked == ((0, 0),)
    (row,) = picks.elsewhere([0, 99])
    assert row.ranks == ((2, 197),)


# Ten thousand


@functools.cache
def leaf(case: str, host: str) -> Digest:
    return digest(seen(as_node(each, HOSTS.index(host), 3) for each in machine(case, host)), 0)


def all_of(case: str, nodes: int, culprit: int) -> Digest:
    waiting, other = leaf(case, "h1"), leaf(case, "h2")
    return union(*(moved(other if node == culprit else waiting, node) for node in range(nodes)))


def asked(case: str, nodes: int, culprit: int, chosen: Spans, whole: Digest) -> Diagnosis:
    """What is said with the facts of the machines that were chosen."""
    numbers = [number for first, last in chosen for number in range(first, last + 1)]
    here = spans(number * ON_A_NODE + local for number in numbers for local in range(ON_A_NODE))
    rest = elsewhere(whole, here)
    joiner, found = Joiner(), History()
    recorded = {number: machine(case, "h2" if number == culprit else "h1") for number in numbers}
    rounds: Sequence[int] = range(min(map(len, recorded.values())))
    for at in rounds:
        parts = [
            Part(host=f"n{number}", snapshot=as_node(each[len(each) - len(rounds) + at], number, nodes))
            for number, each in recorded.items()
        ]
        found = found.add(joiner.join(parts, rest))
    return diagnose(found)


CAUSES = {"worker": "worker-stuck", "mismatch": "collective-mismatch", "stop": "stopped"}


@pytest.mark.parametrize("nodes", [1_000, 10_000])
@pytest.mark.parametrize("case", CAUSES)
def test_a_few_machines_answer_for_all(case: str, nodes: int) -> None:
    culprit = nodes // 2 + 7
    whole = all_of(case, nodes, culprit)
    chosen = choose(whole)
    assert has(chosen, culprit)
    assert count(chosen) <= FEW + 1
    said = asked(case, nodes, culprit, chosen, whole)
    assert said.verdict is Verdict.HUNG
    assert said.findings[0].cause == CAUSES[case]
    assert {suspect.rank for suspect in said.findings[0].suspects} == {culprit * ON_A_NODE + 1}


@pytest.mark.parametrize("case", CAUSES)
def test_what_all_say_does_not_grow_with_their_number(case: str) -> None:
    few, many = (all_of(case, nodes, 50) for nodes in (100, 10_000))
    sizes = [sum(len(encode(row)) for row in whole) for whole in (few, many)]
    assert len(few) == len(many)
    assert sizes[1] < 1.2 * sizes[0]
    assert max(len(b"".join(map(encode, leaf(case, host)))) for host in ("h1", "h2")) < 1024


# Whom to ask


def standing(does: str, nodes: Spans, role: str = "rank") -> Class:
    first = nodes[0][0]
    ranks = tuple((one * ON_A_NODE, last * ON_A_NODE + 1) for one, last in nodes)
    return Class(
        kind=Kind(role=role, waits=does), does=does, ranks=ranks, nodes=nodes, first=(first * ON_A_NODE, first)
    )


def test_where_all_do_the_same_figures_tell_who_differs() -> None:
    whole = (standing("waits", ((0, 511),)),)
    watts = {number: 600.0 + number % 5 for number in range(512)} | {300: 310.0}
    figures = {number: Figures(over_s=30.0, gpu_power_watts=value) for number, value in watts.items()}
    assert choose(whole) == ((0, 0),)
    assert has(choose(whole, figures), 300)
    assert count(choose(whole, figures)) <= 3


def test_where_many_differ_no_more_than_some_are_asked() -> None:
    whole = tuple(standing(f"at line {number:04}", ((number, number),)) for number in range(1000))
    assert count(choose(whole)) == MOST


def test_machines_of_which_all_ranks_get_on_are_asked_last() -> None:
    whole = standing("", ((0, 900),)), standing("waits", ((901, 999),))
    assert has(choose(whole), 901)


def test_of_those_who_get_on_nobody_stands_for_the_others() -> None:
    rows = elsewhere((standing("", ((0, 9),)), standing("waits", ((10, 19),))), ((0, 1), (20, 21)))
    assert [(row.ranks, row.like) for row in rows] == [(((2, 19),), None), (((22, 39),), 20)]


def test_of_nobody_nobody_is_asked() -> None:
    assert choose(()) == ()
    assert elsewhere((), ()) == ()
    assert digest(History(), 1) == ()
