"""Spans are sets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mpmon.spans import Spans, both, count, has, spans, union, without

numbers = st.frozensets(st.integers(0, 40))


def of(these: Spans) -> frozenset[int]:
    return frozenset(number for first, last in these for number in range(first, last + 1))


@given(numbers, numbers)
def test_they_do_what_sets_do(one: frozenset[int], other: frozenset[int]) -> None:
    a, b = spans(one), spans(other)
    assert of(a) == one
    assert count(a) == len(one)
    assert of(union(a, b)) == one | other
    assert of(without(a, b)) == one - other
    assert of(both(a, b)) == one & other
    assert all(has(a, number) == (number in one) for number in range(42))


@given(numbers, numbers)
def test_one_set_is_written_in_one_way(one: frozenset[int], other: frozenset[int]) -> None:
    made = (union(spans(one), spans(other)), union(spans(other), spans(one)), spans(one | other))
    assert len(set(made)) == 1
    assert all(later[0] > earlier[1] + 1 for earlier, later in zip(made[0], made[0][1:], strict=False))
    assert union(without(spans(one), spans(other))) == without(spans(one), spans(other))


def test_what_ends_before_it_begins_is_nobody() -> None:
    assert union(((5, 3), (0, 1))) == ((0, 1),)
