"""Finding a key of a dictionary as the interpreter does: by its hash.

A program with torch has imported thousands of modules; spelling the name of each takes longer than all other reads of a
process together (Objects/dictobject.c, Python/pyhash.c).
"""

from __future__ import annotations

import sys

from mpmon.probes.interpreter.objects import Objects
from mpmon.probes.interpreter.tables import Table

HASH_AT = 24
"""PyASCIIObject.hash (Include/cpython/unicodeobject.h)."""

SECRET_BYTES = 16
"""The part of `_Py_HashSecret` that SipHash uses."""

EMPTY = -1
"""DKIX_EMPTY: no key was ever placed here."""

MOST_PROBES = 1000
"""Slots examined for one key; a third of them is always empty."""

_SHIFT = 5
"""PERTURB_SHIFT"""

_WORD = (1 << 64) - 1


class Hashes:
    """The hashes of strings in one process, whose secret is drawn at its start."""

    def __init__(self, secret: bytes, version: tuple[int, int]) -> None:
        """`secret` are the first `SECRET_BYTES` of `_Py_HashSecret`."""
        self._keys = int.from_bytes(secret[:8], "little"), int.from_bytes(secret[8:], "little")
        # SipHash-1-3, before 3.11 SipHash-2-4: rounds for each word, and at the end.
        self._rounds = (2, 4) if version < (3, 11) else (1, 3)

    def of(self, text: bytes) -> int:
        """The hash of an ASCII string, as 64 bits without a sign."""
        if not text:
            return 0
        found = _sip(self._keys, text, *self._rounds)
        # -1 tells an error, so no object has it.
        return found if found != _WORD else _WORD - 1

    def fit(self, objects: Objects, table: Table) -> bool:
        """Whether they are right for the first key of a table: Python may be built with another function. Raises `Torn`."""
        key = objects.word(table.entries + table.size - 16) if table.filled else 0
        return bool(key) and objects.word(key + HASH_AT) == self.of(objects.text(key).encode())


def find(objects: Objects, table: Table, name: bytes, hashed: int) -> int | None:
    """The value of a string key with this hash; `None` if there is no such key. Raises `Torn`."""
    mask, at, perturb = table.slots - 1, hashed & (table.slots - 1), hashed
    for _ in range(MOST_PROBES):
        slot = objects.read(table.indices + at * table.width, table.width)
        place = int.from_bytes(slot, sys.byteorder, signed=True)
        if place == EMPTY:
            return None
        if 0 <= place < table.filled:
            key, value = objects.words("QQ", table.entries + place * table.size + table.size - 16)
            if key and objects.spelled(key, (name,)):
                return value
        perturb >>= _SHIFT
        at = (at * 5 + perturb + 1) & mask
    return None


def _sip(keys: tuple[int, int], text: bytes, each: int, last: int) -> int:
    """SipHash of Aumasson and Bernstein, 2012."""
    first, second = keys
    state = (
        first ^ 0x736F6D6570736575, second ^ 0x646F72616E646F6D, first ^ 0x6C7967656E657261, second ^ 0x7465646279746573,
    )  # fmt: skip
    whole = len(text) // 8 * 8
    words = [int.from_bytes(text[at : at + 8], "little") for at in range(0, whole, 8)]
    words.append(int.from_bytes(text[whole:], "little") | (len(text) & 0xFF) << 56)
    for word in words:
        a, b, c, d = state
        a, b, c, d = _mixed((a, b, c, d ^ word), each)
        state = a ^ word, b, c, d
    a, b, c, d = state
    a, b, c, d = _mixed((a, b, c ^ 0xFF, d), last)
    return a ^ b ^ c ^ d


def _mixed(state: tuple[int, int, int, int], rounds: int) -> tuple[int, int, int, int]:
    a, b, c, d = state
    for _ in range(rounds):
        a, c = (a + b) & _WORD, (c + d) & _WORD
        b, d = _turned(b, 13) ^ a, _turned(d, 16) ^ c
        a, c = _turned(a, 32), (c + b) & _WORD
        a = (a + d) & _WORD
        b, d = _turned(b, 17) ^ c, _turned(d, 21) ^ a
        c = _turned(c, 32)
    return a, b, c, d


def _turned(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) & _WORD
