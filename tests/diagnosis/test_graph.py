"""The wait-for graph: by examples, and by properties that hold for every graph."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpmon.diagnosis.graph import (
    Basis,
    Closed,
    Ending,
    Exited,
    External,
    Graph,
    Node,
    NoReleaser,
    Status,
    Target,
    WaitEdge,
)
from mpmon.diagnosis.state.history import ThreadKey

Nodes = dict[ThreadKey, Node]


def key(pid: int) -> ThreadKey:
    return pid, pid


def live(pid: int) -> Node:
    return Node(key(pid), Status.LIVE)


def leaf(pid: int) -> Node:
    return Node(key(pid), Status.LEAF)


def polls(pid: int, *asks: int) -> Node:
    return Node(key(pid), Status.LEAF, polls=True, asks=tuple(map(key, asks)))


def hidden(pid: int) -> Node:
    return Node(key(pid), Status.HIDDEN)


def idle(pid: int) -> Node:
    return Node(key(pid), Status.IDLE)


def waits(pid: int, *targets: int | Target, every: bool = False, exact: bool = False) -> Node:
    found = tuple(key(target) if isinstance(target, int) else target for target in targets)
    return Node(key(pid), Status.WAITS, WaitEdge(found, every=every, basis=Basis.KERNEL.when(exact)))


def closed(*nodes: Node, goal: int = 1) -> Closed | None:
    table = {node.key: node for node in nodes}
    return Graph(table.__getitem__).closed(key(goal))


def guesses(pid: int, *targets: int) -> Node:
    """Who polls for something that any of these might bring."""
    return Node(key(pid), Status.WAITS, WaitEdge(tuple(map(key, targets)), guessed=True))


# Examples


@pytest.mark.parametrize(
    ("others", "blockers"),
    [
        ((idle(2), idle(3)), {1}),
        ((idle(2), waits(3, 1)), {1}),
        ((waits(2, 1), waits(3, 1)), {1}),
        ((guesses(2, 1), waits(3, 1)), {1}),
        ((waits(2, 1, every=True), idle(3)), {1, 2}),
        ((waits(2, 1), leaf(3)), {3}),
    ],
    ids=["all idle", "idle or waiting for it", "all wait for it", "one guesses too", "one needs it to join", "one is blocked"],
)  # fmt: skip
def test_who_only_guesses_who_might_help_is_to_blame_itself_if_these_wait_for_it(
    others: tuple[Node, ...], blockers: set[int]
) -> None:
    found = closed(guesses(1, *(node.key[0] for node in others)), *others)
    assert found is not None
    assert set(found.root_blockers) == set(map(key, blockers))


@pytest.mark.parametrize(
    ("others", "blocker"),
    [
        ((leaf(2),), 2),
        ((waits(2, 3), leaf(3)), 3),
        ((polls(2, 3), leaf(3)), 3),
        ((polls(2, 1),), 2),
        ((waits(2, 1),), 1),
        ((idle(2),), 1),
        ((live(2),), 1),
    ],
    ids=[
        "one is stuck", "one waits for a stuck one", "one polls as well", "one polls for this one", "one waits for it",
        "one has nothing to do", "one moves",
    ],
)  # fmt: skip
def test_whoever_might_bring_what_one_polls_for_blocks_it_if_stuck_without_it(
    others: tuple[Node, ...], blocker: int
) -> None:
    found = closed(polls(1, 2), *others)
    assert found is not None
    assert found.root_blockers == (key(blocker),)
    assert found.path[0] == key(1)


def test_one_that_stands_beside_and_waits_is_to_blame_where_it_is_known_to_be_needed() -> None:
    beside = msgspec.structs.replace(waits(2, 1, 3), bystander=True)
    found = closed(waits(1, 2, exact=True), beside, waits(3, 1, 2, exact=True))
    assert found is not None
    assert found.root_blockers == (key(2),)


def test_one_of_those_that_might_help_moves() -> None:
    assert closed(guesses(1, 2, 3), waits(2, 1), live(3)) is None


def test_one_who_waits_for_somebody_who_moves_will_go_on() -> None:
    assert closed(waits(1, 2), live(2)) is None


def test_one_who_waits_for_a_sleeper_will_not() -> None:
    found = closed(waits(1, 2), leaf(2))
    assert found is not None
    assert found.root_blockers == (key(2),)
    assert found.path == (key(1), key(2))


def test_of_several_that_stand_still_the_one_that_is_needed_comes_first() -> None:
    """3 must act for 4; that 2 might do something for 1 is only assumed."""
    found = closed(waits(1, 2, 4), leaf(2), leaf(3), waits(4, 3, every=True))
    assert found is not None
    assert found.root_blockers == (key(3),)


@pytest.mark.parametrize(("every", "blocker"), [(False, 2), (True, 3)])
def test_a_bystander_is_to_blame_only_if_it_is_needed(blocker: int, *, every: bool) -> None:
    beside = Node(key(3), Status.LEAF, bystander=True)
    found = closed(waits(1, 2, 3, every=False), waits(2, 3, every=True) if every else leaf(2), beside)
    assert found is not None
    assert found.root_blockers == (key(blocker),)


def test_one_who_waits_for_somebody_of_whom_nothing_is_known_rests_on_that() -> None:
    table = {
        node.key: node
        for node in (waits(1, 2, 3), hidden(2), leaf(3), live(4), waits(5, 2, 4), waits(6, 2, 4, every=True))
    }
    graph = Graph(table.__getitem__)
    assert graph.closed(key(1)) is None
    assert graph.rests_on(key(1)) == graph.rests_on(key(6)) == (key(2),)
    assert graph.rests_on(key(5)) == ()
    assert graph.rests_on(key(2)) == (key(2),)
    assert graph.rests_on(key(4)) == ()


def test_any_one_producer_is_enough() -> None:
    assert closed(waits(1, 2, 3), leaf(2), live(3)) is None


def test_every_rank_has_to_come() -> None:
    found = closed(waits(1, 2, 3, every=True), leaf(2), live(3))
    assert found is not None
    assert found.root_blockers == (key(2),)
    assert key(3) not in found.members


def test_an_idle_servant_helps_nobody_and_is_no_suspect() -> None:
    found = closed(waits(1, 2, 3), idle(2), leaf(3))
    assert found is not None
    assert found.root_blockers == (key(3),)


def test_two_who_wait_for_each_other_are_suspects_together() -> None:
    found = closed(waits(1, 2, exact=True), waits(2, 1, exact=True))
    assert found is not None
    assert found.ending is Ending.CYCLE
    assert set(found.root_blockers) == {key(1), key(2)}
    assert found.exact


def test_one_who_waits_for_itself() -> None:
    found = closed(waits(1, 1))
    assert found is not None
    assert found.root_blockers == (key(1),)
    assert found.ending is Ending.CYCLE


def test_only_the_cycle_is_suspect_not_those_who_wait_for_it() -> None:
    found = closed(waits(1, 2), waits(2, 3), waits(3, 2))
    assert found is not None
    assert set(found.root_blockers) == {key(2), key(3)}


@pytest.mark.parametrize(
    ("end", "stronger"),
    [(Exited(9, "killed"), 0), (NoReleaser("nobody"), 0), (External("a server"), 1)],
    ids=["gone", "nobody", "outside"],
)
def test_the_dead_come_before_sleepers_and_sleepers_before_the_outside(end: Target, stronger: int) -> None:
    found = closed(waits(1, 2, 3), leaf(2), waits(3, end))
    assert found is not None
    assert found.root_blockers == ((end,), (key(2),))[stronger]


@pytest.mark.parametrize(
    ("status", "of_sign", "is_blamed"), [(0, True, False), (0, False, True), (9, True, True), (None, True, True)]
)
def test_one_that_ended_by_right_owed_no_sign_to_two_that_wait_for_each_other(
    status: int | None, *, of_sign: bool, is_blamed: bool
) -> None:
    ended = Exited(9, "ended", certain=False, status=status)
    asks = msgspec.structs.replace(waits(2), edge=WaitEdge((key(1), ended), of_sign=of_sign))
    found = closed(waits(1, 2, exact=True), asks)
    assert found is not None
    assert found.root_blockers == ((ended,) if is_blamed else (key(1), key(2)))


@pytest.mark.parametrize(("third", "blockers"), [(waits(3, 2), {2}), (leaf(3), {3})])
def test_of_tasks_that_a_library_runs_one_that_waits_for_another_is_no_root_blocker(
    third: Node, blockers: set[int]
) -> None:
    asks = Node(key(1), Status.WAITS, WaitEdge((key(2), key(3)), polled=True))
    found = closed(asks, waits(2, 2, every=True), third)
    assert found
    assert {pid for pid, _ in found.root_blockers} == blockers


@pytest.mark.parametrize(("of_sign", "blockers"), [(True, {2, 3}), (False, {1, 3})], ids=["a-sign", "room"])
def test_who_waits_for_an_end_gives_no_sign_before(*, of_sign: bool, blockers: set[int]) -> None:
    """Main joins the first of two that wait until the other one, or main, acts."""
    joins = msgspec.structs.replace(waits(1, 2), edge=WaitEdge((key(2),), of_end=True))
    asks = msgspec.structs.replace(waits(2), edge=WaitEdge((key(1), key(3)), of_sign=of_sign))
    found = closed(joins, asks, msgspec.structs.replace(waits(3), edge=WaitEdge((key(1), key(2)), of_sign=of_sign)))
    assert found is not None
    assert set(found.root_blockers) == {key(pid) for pid in blockers}


def test_a_chain_is_followed_to_its_end() -> None:
    found = closed(waits(1, 2), waits(2, 3, exact=True), waits(3, 4), leaf(4))
    assert found is not None
    assert found.path == (key(1), key(2), key(3), key(4))
    assert not found.exact


# Properties

_PIDS = st.integers(1, 8)
_ENDS = st.sampled_from([Exited(91, "killed"), Exited(92, "killed"), NoReleaser("nobody"), External("a server")])


@st.composite
def graphs(draw: st.DrawFn) -> Nodes:
    """Some threads of which each moves, stands, is idle, or waits for others."""
    count = draw(_PIDS)
    nodes: Nodes = {}
    for pid in range(1, count + 1):
        status = draw(st.sampled_from([Status.LIVE, Status.LEAF, Status.IDLE, *[Status.WAITS] * 5]))
        edge = None
        if status is Status.WAITS:
            threads = draw(st.lists(st.integers(1, count), max_size=4, unique=True))
            ends = draw(st.lists(_ENDS, max_size=1))
            targets = (*map(key, threads), *ends) or (NoReleaser("nobody"),)
            edge = WaitEdge(targets, every=draw(st.booleans()), basis=draw(st.sampled_from(Basis)))
        nodes[key(pid)] = Node(key(pid), status, edge)
    return nodes


def able_by_definition(nodes: Nodes) -> set[ThreadKey]:
    """The smallest set with the live ones and every one whose need it satisfies, found one by one, without a thought."""
    able: set[ThreadKey] = set()
    while True:
        more = next((each for each, node in nodes.items() if each not in able and can_move(node, able)), None)
        if more is None:
            return able
        able.add(more)


def can_move(node: Node, able: Iterable[object]) -> bool:
    if node.status is not Status.WAITS or node.edge is None:
        return node.status is Status.LIVE
    helped = [target in set(able) for target in node.edge.targets]
    return all(helped) if node.edge.every else any(helped)


def of(nodes: Nodes) -> Closed | None:
    return Graph(nodes.__getitem__).closed(key(1))


@given(graphs())
def test_a_goal_is_closed_when_it_can_never_move(nodes: Nodes) -> None:
    assert (of(nodes) is None) == (key(1) in able_by_definition(nodes))


@given(graphs())
def test_no_member_of_a_closed_set_can_move(nodes: Nodes) -> None:
    found = of(nodes)
    if found:
        assert not set(found.members) & able_by_definition(nodes)
        assert key(1) in found.members


@given(graphs())
def test_suspects_never_wait_for_one_that_can_help(nodes: Nodes) -> None:
    found = of(nodes)
    if found is None:
        return
    able = able_by_definition(nodes)
    assert found.root_blockers or all(nodes[member].status is Status.IDLE for member in found.members)
    for root in found.root_blockers:
        if isinstance(root, tuple):
            assert root in found.members
            assert not can_move(nodes[root], able)


@given(graphs())
def test_the_path_leads_from_the_goal_along_waits_to_the_first_suspect(nodes: Nodes) -> None:
    found = of(nodes)
    if found is None:
        return
    assert found.path[0] == key(1)
    for waiter, target in itertools.pairwise(found.path):
        edge = nodes[waiter].edge
        assert edge is not None
        assert target in edge.targets
    last = nodes[found.path[-1]]
    if found.root_blockers and found.root_blockers[0] != last.key:
        assert last.edge is not None
        assert found.root_blockers[0] in last.edge.targets
    exact = [nodes[each].edge.exact for each in found.path if nodes[each].edge]
    assert found.exact == all(exact)


@given(graphs())
def test_a_cycle_is_a_cycle(nodes: Nodes) -> None:
    found = of(nodes)
    if found is None or found.ending is not Ending.CYCLE:
        return
    around = [*found.root_blockers, found.root_blockers[0]]
    for waiter, target in itertools.pairwise(around):
        edge = nodes[waiter].edge
        assert edge is not None
        assert target in edge.targets


@given(graphs(), st.permutations(range(1, 9)))
def test_other_pids_change_nothing_but_the_numbers(nodes: Nodes, order: list[int]) -> None:
    numbers = {key(pid): key(1000 + new) for pid, new in zip(range(1, 9), order, strict=True)}
    found = of(nodes)
    again = Graph(renumbered(nodes, numbers).__getitem__).closed(numbers[key(1)])
    assert again == (None if found is None else renumbered_closed(found, numbers))


@given(graphs(), st.sampled_from([idle(77), live(77), leaf(77), waits(77, 1), waits(77, NoReleaser("nobody"))]))
def test_a_stranger_changes_nothing(nodes: Nodes, stranger: Node) -> None:
    assert of({**nodes, stranger.key: stranger}) == of(nodes)


@given(graphs())
def test_an_idle_servant_more_changes_nothing_for_who_waits_for_any(nodes: Nodes) -> None:
    more = dict(nodes)
    for each, node in nodes.items():
        if node.edge and not node.edge.every:
            edge = msgspec.structs.replace(node.edge, targets=(*node.edge.targets, key(77)))
            more[each] = Node(each, node.status, edge)
    more[key(77)] = idle(77)
    before, now = of(nodes), of(more)
    assert (before is None) == (now is None)
    if before and now and before.root_blockers and before.ending is not Ending.CYCLE:
        assert set(now.root_blockers) == set(before.root_blockers)


def renumbered(nodes: Nodes, numbers: dict[ThreadKey, ThreadKey]) -> Nodes:
    found: Nodes = {}
    for each, node in nodes.items():
        targets = tuple(_number(target, numbers) for target in node.edge.targets) if node.edge else ()
        edge = msgspec.structs.replace(node.edge, targets=targets) if node.edge else None
        found[numbers[each]] = Node(numbers[each], node.status, edge)
    return found


def renumbered_closed(row: Closed, numbers: dict[ThreadKey, ThreadKey]) -> Closed:
    return Closed(
        goal=numbers[row.goal], members=tuple(numbers[each] for each in row.members),
        root_blockers=tuple(_number(each, numbers) for each in row.root_blockers), ending=row.ending,
        path=tuple(numbers[each] for each in row.path), assumed=tuple(numbers[each] for each in row.assumed),
        core=tuple(numbers[each] for each in row.core),
    )  # fmt: skip


def _number(target: Target, numbers: dict[ThreadKey, ThreadKey]) -> Target:
    return numbers[target] if isinstance(target, tuple) else target


def test_a_heartbeat_is_no_root_blocker_where_others_wait_for_each_other() -> None:
    beats = Node(key(4), Status.LEAF, bystander=True)
    found = closed(waits(1, 2, 4), waits(2, 3), waits(3, 2), beats)
    assert found is not None
    assert (set(found.root_blockers), found.ending) == ({key(2), key(3)}, Ending.CYCLE)


def test_a_heartbeat_is_the_root_blocker_where_nothing_else_tells() -> None:
    found = closed(waits(1, 2), Node(key(2), Status.LEAF, bystander=True))
    assert found is not None
    assert found.root_blockers == (key(2),)
