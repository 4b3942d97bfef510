"""Components, beside their definition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mpmon.diagnosis.graph.components import components

Edges = dict[int, list[int]]

edges = st.dictionaries(st.integers(0, 7), st.lists(st.integers(0, 7), max_size=4)).map(
    lambda some: {node: some.get(node, []) for node in range(8)}
)


def reached(table: Edges, start: int) -> set[int]:
    found, line = {start}, [start]
    for node in line:
        line.extend(more := [target for target in dict.fromkeys(table[node]) if target not in found])
        found.update(more)
    return found


@given(edges)
def test_those_are_together_who_reach_each_other(table: Edges) -> None:
    whole = {node: reached(table, node) for node in table}
    together = {frozenset(other for other in table if other in whole[node] and node in whole[other]) for node in table}
    assert {frozenset(row) for row in components(table, table.__getitem__)} == together


@given(edges)
def test_whoever_is_waited_for_comes_first(table: Edges) -> None:
    order = components(table, table.__getitem__)
    place = {node: at for at, row in enumerate(order) for node in row}
    assert sorted(place) == sorted(table)
    assert all(place[target] <= place[node] for node, targets in table.items() for target in targets)


def test_a_long_chain_needs_no_deep_stack() -> None:
    table = {node: [node + 1] for node in range(20_000)} | {20_000: [19_999]}
    assert components([0], table.__getitem__)[0] == (19_999, 20_000)
