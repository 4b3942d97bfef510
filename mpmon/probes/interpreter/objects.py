"""Reading Python objects in the memory of another process: types, attributes, strings, numbers.

An attribute lies in an instance's dictionary, or in an array of values whose names the class keeps
(Objects/dictobject.c, Include/internal/pycore_object.h); where, changed in 3.11, 3.12 and 3.13.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from mpmon.probes.interpreter.layouts import Layout
from mpmon.probes.memory import Memory

READS = 60_000
"""Reads of one process's memory in one look; a hundred threads need some thousand."""

TYPE, TYPE_NAME, BASIC_SIZE, TYPE_FLAGS, DICT_OFFSET = 8, 24, 32, 168, 288
"""PyObject.ob_type; PyTypeObject's tp_name, tp_basicsize, tp_flags, tp_dictoffset: the same since Python 3.8."""

INLINE_VALUES, MANAGED_DICT = 1 << 2, 1 << 4
"""Py_TPFLAGS_… of Include/object.h."""

TAGS = 7
"""Objects are aligned to 8 bytes; 3.14 marks references in the lowest bits (pycore_stackref.h)."""

MOST_KEYS = 1000
_LONGEST_NAME = 48


class Torn(Exception):
    """A pointer that leads nowhere, or too many of them: this part of the process cannot be read now."""


class Objects:
    """The objects of one process."""

    def __init__(self, memory: Memory, layout: Layout) -> None:
        self._memory = memory
        self._layout = layout
        self._type_names: dict[int, bytes] = {}
        self._left = READS

    def words(self, fields: str, address: int) -> tuple[int, ...]:
        """Integers at an address, in the layout of `struct`.

        Raises:
            Torn: they cannot be read.
        """
        self._left -= 1
        words = self._memory.unpack(fields, address) if self._left > 0 else None
        if words is None:
            raise Torn
        return words

    def word(self, address: int) -> int:
        """The pointer at an address. Raises `Torn`."""
        return self.words("Q", address)[0]

    def read(self, address: int, size: int) -> bytes:
        """Bytes at an address. Raises `Torn`."""
        self._left -= 1
        text = self._memory.read(address, size) if self._left > 0 else None
        if text is None:
            raise Torn
        return text

    def type_name(self, thing: int) -> bytes:
        """`tp_name` of an object's type, `_thread.lock`. Raises `Torn`."""
        kind = self.word(thing + TYPE)
        if kind not in self._type_names:
            self._type_names[kind] = self.c_text(self.word(kind + TYPE_NAME))
        return self._type_names[kind]

    def c_text(self, address: int) -> bytes:
        """A C string, at most 48 bytes of it. Raises `Torn`."""
        page_left = 4096 - address % 4096
        return self.read(address, min(_LONGEST_NAME, page_left)).partition(b"\0")[0]

    def text(self, thing: int, limit: int = 400) -> str:
        """A string, if it is ASCII; others become nonsense of the same length. Raises `Torn`."""
        length = self.word(thing + 16)
        return self.read(thing + self._layout.text, min(length, limit)).decode("latin-1") if length else ""

    def integer(self, thing: int) -> int:
        """A non-negative `int` below 2**90: up to three digits of 30 bits (cpython/longintrepr.h). Raises `Torn`."""
        size = self.word(thing + 16)
        digits = size >> 3 if self._layout.version >= (3, 12) else size
        if not 0 <= digits <= 3:
            raise Torn
        return (
            sum(digit << 30 * place for place, digit in enumerate(self.words(f"{digits}I", thing + 24)))
            if digits
            else 0
        )

    def attribute(self, thing: int, name: bytes) -> int | None:
        """The object an instance's attribute is bound to, `None` where it has no such attribute. Raises `Torn`."""
        kind = self.word(thing + TYPE)
        flags = self.word(kind + TYPE_FLAGS)
        if self._layout.version < (3, 11):
            offset = self.word(kind + DICT_OFFSET)
            return self._item(self.word(thing + offset), name) if 0 < offset < 1 << 16 else None
        if not flags & MANAGED_DICT:
            return None
        dictionary, values = self._managed(thing, kind, flags)
        if values:
            return self._value(self.word(kind + self._layout.cached_keys), values, name)
        return self._item(dictionary, name) if dictionary else None

    def _managed(self, thing: int, kind: int, flags: int) -> tuple[int, int]:
        """(dictionary, values) of an instance whose class manages them: one of the two is 0."""
        before, last = self.words("QQ", thing - 32)
        if self._layout.version == (3, 11):
            return (0, before) if before else (last, 0)
        if self._layout.version == (3, 12):
            return (0, last + 1) if last & 1 else (last, 0)
        if last or not flags & INLINE_VALUES:
            return last, 0
        inline = thing + self.word(kind + BASIC_SIZE)
        return (0, inline + 8) if self.read(inline + 3, 1)[0] else (0, 0)

    def _item(self, dictionary: int, name: bytes) -> int | None:
        keys, values = self.words("QQ", dictionary + 32)
        if values:
            # From 3.13 on the values of a split table follow a head of 8 bytes.
            return self._value(keys, values + (8 if self._layout.version >= (3, 13) else 0), name)
        return next((value for _, key, value in self._entries(keys) if value and self._is(key, name)), None)

    def _value(self, keys: int, values: int, name: bytes) -> int | None:
        place = next((place for place, key, _ in self._entries(keys) if self._is(key, name)), None)
        return None if place is None else self.word(values + 8 * place) or None

    def _entries(self, keys: int) -> Iterator[tuple[int, int, int]]:
        """(place, key, value) of a PyDictKeysObject; the values of a split table lie elsewhere."""
        if self._layout.version < (3, 11):
            slots, count = self.word(keys + 8), self.word(keys + 32)
            width = 1 if slots <= 0xFF else 2 if slots <= 0xFFFF else 4
            start, hashed = keys + 40 + slots * width, True
        else:
            index_bytes, kind = self.read(keys + 9, 2)
            count, start, hashed = self.word(keys + 24), keys + 32 + (1 << min(index_bytes, 32)), kind == 0
        if not 0 <= count <= MOST_KEYS:
            raise Torn
        size = 24 if hashed else 16
        table = self.read(start, count * size) if count else b""
        for place in range(count):
            key, value = struct.unpack_from("=QQ", table, place * size + size - 16)
            if key:
                yield place, key, value

    def _is(self, key: int, name: bytes) -> bool:
        return self.word(key + 16) == len(name) and self.read(key + self._layout.text, len(name)) == name
