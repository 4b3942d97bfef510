"""The items of a `collections.deque`, which lie in blocks, each with the address of the next (Modules/_collectionsmodule.c)."""

from __future__ import annotations

from mpmon.probes.interpreter.objects import Objects

LENGTH_AT, FIRST_BLOCK_AT, FIRST_AT = 16, 24, 40
"""Fields of `dequeobject`: the number of items, the first block of them, and where in it the first item is."""

ITEMS_AT, ITEMS = 8, 64
"""Of a block: where its items begin, and how many there is room for; the next block follows."""


def items_of(objects: Objects, deque: int, most: int) -> tuple[int, ...]:
    """The first items of a deque; none of any other object. Raises `Torn`."""
    if objects.kind(deque) != b"collections.deque":
        return ()
    left, block, first = (objects.word(deque + at) for at in (LENGTH_AT, FIRST_BLOCK_AT, FIRST_AT))
    left = min(left, most)
    found: list[int] = []
    while left > 0 and first < ITEMS:
        count = min(left, ITEMS - first)
        found += objects.words(f"{count}Q", block + ITEMS_AT + 8 * first)
        left, first, block = left - count, 0, objects.word(block + ITEMS_AT + 8 * ITEMS)
    return tuple(found)
