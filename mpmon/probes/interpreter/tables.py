"""The table of a dictionary's keys (Objects/dictobject.c)."""

from __future__ import annotations

from typing import NamedTuple

from mpmon.probes.interpreter.pages import Pages


class Table(NamedTuple):
    """PyDictKeysObject (Include/internal/pycore_dict.h): slots with the numbers of entries, and the entries."""

    slots: int
    indices: int
    """Address of the slots."""
    width: int
    """Bytes of a slot."""
    entries: int
    """Address of the entries, each of which ends with the pointers to key and value."""
    size: int
    """Bytes of an entry."""
    filled: int
    """Entries, those of removed keys included."""


def table_at(pages: Pages, keys: int, version: tuple[int, int]) -> Table:
    """The table at an address. Raises `Torn`."""
    if version < (3, 11):
        slots, count = pages.word(keys + 8), pages.word(keys + 32)
        width = 1 if slots <= 0xFF else 2 if slots <= 0xFFFF else 4
        return Table(slots, keys + 40, width, keys + 40 + slots * width, 24, count)
    slot_bits, index_bits, kind = pages.read(keys + 8, 3)
    slots, room = 1 << min(slot_bits, 32), 1 << min(index_bits, 34)
    return Table(
        slots, keys + 32, min(max(room // slots, 1), 8), keys + 32 + room, 16 if kind else 24, pages.word(keys + 24)
    )
