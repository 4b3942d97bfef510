"""Sets of numbers as spans: `((0, 7), (9, 9))` for 0 to 7 and 9, in order, never touching each other.

Of a job on ten thousand machines the numbers of most ranks follow each other, so a set of eighty thousand is one pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Spans = tuple[tuple[int, int], ...]
"""First and last number of each."""


def spans(numbers: Iterable[int]) -> Spans:
    """Of single numbers, in any order."""
    return union(tuple((number, number) for number in numbers))


def union(*sets: Iterable[tuple[int, int]]) -> Spans:
    """Whoever is in any of them. What is no span, since its last number is smaller than its first, is nobody."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(span for each in sets for span in each if span[0] <= span[1]):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def without(these: Spans, others: Spans) -> Spans:
    """Whoever is in the first set and not in the second."""
    return tuple(_left(these, others))


def _left(these: Spans, others: Spans) -> Iterator[tuple[int, int]]:
    line = iter(others)
    taken = next(line, None)
    for first, last in these:
        begins = first
        while taken and taken[0] <= last:
            if taken[1] >= begins:
                if begins < taken[0]:
                    yield begins, taken[0] - 1
                begins = taken[1] + 1
            if taken[1] > last:
                break
            taken = next(line, None)
        if begins <= last:
            yield begins, last


def both(these: Spans, others: Spans) -> Spans:
    """Whoever is in both sets."""
    return without(these, without(these, others))


def count(these: Spans) -> int:
    """How many numbers they are."""
    return sum(last - first + 1 for first, last in these)


def has(these: Spans, number: int) -> bool:
    """Whether a number is in the set."""
    return any(first <= number <= last for first, last in these)
