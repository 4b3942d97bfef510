"""Reading Python objects in the memory of another process: types, attributes, strings, numbers.

An attribute lies in an instance's dictionary, or in an array of values whose names the class keeps
(Objects/dictobject.c, Include/internal/pycore_object.h); the place changed in 3.11, 3.12 and 3.13.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Sequence

from mpmon.probes.interpreter.layouts import Layout
from mpmon.probes.interpreter.pages import TOO_MUCH, Pages, Torn
from mpmon.probes.interpreter.tables import Table, table_at
from mpmon.probes.memory import Memory

TYPE, TYPE_NAME, BASIC_SIZE, TYPE_FLAGS, DICT_OFFSET = 8, 24, 32, 168, 288
"""PyObject.ob_type; PyTypeObject's tp_name, tp_basicsize, tp_flags, tp_dictoffset: the same since Python 3.8."""

INLINE_VALUES, MANAGED_DICT, HEAP_TYPE = 1 << 2, 1 << 4, 1 << 9
LONG, LIST, TUPLE, TEXT, DICT = 1 << 24, 1 << 25, 1 << 26, 1 << 28, 1 << 29
"""Py_TPFLAGS_… of Include/object.h; those of the second line apply to a class and all classes derived from it."""

TAGS = 7
"""Objects are aligned to 8 bytes; 3.14 marks references in the lowest bits (pycore_stackref.h)."""

BASE, LIST_ITEMS = 256, 24
"""PyTypeObject.tp_base, PyListObject.ob_item."""

NEXT, CLASS_DICT = 224, 264
"""PyTypeObject.tp_iternext, tp_dict."""

METHOD, FUNCTION_AT, BOUND_TO, NAME_AT, CODE_AT = b"method", 16, 24, 32, 48
"""The type of a bound method; PyMethodObject.im_func; PyFunctionObject.func_name and func_code."""

NEGATIVE = 2
"""The lowest bits of the `lv_tag` of a negative number, from 3.12 on."""

MOST_DIGITS = 3
"""Most digits, of 30 bits each, read of a number (cpython/longintrepr.h)."""

ENCODINGS = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}
"""By bytes per character, `PyASCIIObject.state.kind` (Include/cpython/unicodeobject.h)."""

SET_MASK = 32
"""PySetObject.mask, followed by the table: pairs of an element and its hash (Objects/setobject.c)."""

DELETED = -1
"""The hash of a removed element; no object has it."""

HEAD, MOST_OF_CLASS = 16, 32
"""Bytes of an object's head, and most slots of one class."""

MOST_SLOTS = 1 << 16

MOST_BASES = 12

MOST_KEYS = 1000
"""Most keys of a dictionary, unless the caller asks for more."""

_BLOCK = 2000
"""Entries of a dictionary read at once."""

_LONGEST_NAME = 100


class Objects(Pages):
    """The objects of one process."""

    def __init__(self, memory: Memory, layout: Layout) -> None:
        super().__init__(memory)
        self._layout = layout
        self._type_names: dict[int, bytes] = {}
        self._bases: dict[int, tuple[bytes, ...]] = {}
        self._flags: dict[int, int] = {}
        self._iterators: dict[int, bool] = {}
        self._names: dict[int, bytes] = {}
        self._shared_keys: dict[int, tuple[tuple[int, int, int], ...]] = {}
        """Entries of key tables that the instances of a class share."""

    def type_name(self, thing: int) -> bytes:
        """`tp_name` of an object's type, such as `_thread.lock`. Raises `Torn`."""
        kind = self.word(thing + TYPE)
        if kind not in self._type_names:
            self._type_names[kind] = self.c_text(self.word(kind + TYPE_NAME))
        return self._type_names[kind]

    def kind(self, value: int) -> bytes:
        """The name of a type; empty for anything that is not an object, since slots may hold anything."""
        if not value or value & TAGS:
            return b""
        try:
            return self.type_name(value)
        except Torn:
            return b""

    def is_iterator(self, thing: int) -> bool:
        """Whether `next()` may be called on an object. Raises `Torn`."""
        kind = self.word(thing + TYPE)
        if kind not in self._iterators:
            self._iterators[kind] = bool(self.word(kind + NEXT)) and self._has_next(kind)
        return self._iterators[kind]

    def _has_next(self, kind: int) -> bool:
        """Classes made at run time have a `tp_iternext` even without a `__next__` (`_PyObject_NextNotImplemented`)."""
        if not self.word(kind + TYPE_FLAGS) & HEAP_TYPE:
            return True
        for _ in range(MOST_BASES):
            dictionary = self.word(kind + CLASS_DICT) if kind else 0
            if dictionary and self.named(dictionary, b"__next__"):
                return True
            kind = self.word(kind + BASE) if kind else 0
        return False

    def c_text(self, address: int) -> bytes:
        """The first 48 bytes of a C string at most. Raises `Torn`."""
        page_left = 4096 - address % 4096
        return self.read(address, min(_LONGEST_NAME, page_left)).partition(b"\0")[0]

    def text(self, thing: int, limit: int = 400) -> str:
        """The first `limit` characters of a string at most, with U+FFFD for anything invalid. Raises `Torn`."""
        length, _, state = self.words("QqI", thing + 16)
        # Two bits for whether it is interned, three for its kind, then one each: compact, ASCII.
        kind, compact, ascii_only = state >> 2 & 7, state >> 5 & 1, state >> 6 & 1
        if kind not in ENCODINGS:
            raise Torn
        if not length:
            return ""
        start = thing + (self._layout.text if ascii_only else self._layout.wide_text)
        start = start if compact else self.word(thing + self._layout.wide_text)
        return self.read(start, min(length, limit) * kind).decode(ENCODINGS[kind], "replace")

    def integer(self, thing: int) -> int:
        """An `int` below 2**90. Raises `Torn`."""
        (size,) = self.words("q", thing + 16)
        count, _ = digits_of(size, self._layout)
        if not 0 <= count <= MOST_DIGITS:
            raise Torn
        return integer_of(size, self.words(f"{count}I", thing + 24) if count else (), self._layout)

    def plain_integer(self, thing: int | None) -> int | None:
        """The same for an object that may be something else; `None` unless its type is exactly `int`. Raises `Torn`."""
        return self.integer(thing) if thing and self.type_name(thing) == b"int" else None

    def bases(self, thing: int) -> tuple[bytes, ...]:
        """Names of an object's class and its first bases, the class itself first. Raises `Torn`."""
        kind = self.word(thing + TYPE)
        if kind not in self._bases:
            names: list[bytes] = []
            at = kind
            while at and len(names) < MOST_BASES:
                names.append(self.c_text(self.word(at + TYPE_NAME)))
                at = self.word(at + BASE)
            if not names:
                raise Torn
            self._bases[kind] = tuple(names)
        return self._bases[kind]

    def items(self, thing: int) -> tuple[int, ...]:
        """The items of a list or tuple, or the values of a dictionary; at most `MOST_KEYS`. Raises `Torn`."""
        kind = self.type_name(thing)
        if kind == b"dict":
            return tuple(value for _, value in self.pairs(thing))
        (count,) = self.words("q", thing + 16)
        if not 0 < count <= MOST_KEYS:
            return ()
        start = self.word(thing + LIST_ITEMS) if kind == b"list" else thing + self._layout.tuple_items
        return self.words(f"{count}Q", start)

    def ends(self, thing: int, most: int) -> tuple[int, ...]:
        """The first and the last `most` elements of a list or a tuple. Raises `Torn`."""
        (count,) = self.words("q", thing + 16)
        if count <= 0:
            return ()
        is_tuple = b"tuple" in self.bases(thing)
        start = thing + self._layout.tuple_items if is_tuple else self.word(thing + LIST_ITEMS)
        last = min(max(count - most, 0), most)
        first = self.words(f"{min(count, most)}Q", start)
        return (*first, *self.words(f"{last}Q", start + 8 * (count - last))) if last else first

    def attribute(self, thing: int, name: bytes) -> int | None:
        """The object an instance's attribute is bound to; `None` if there is no such attribute. Raises `Torn`."""
        return self.attributes(thing, frozenset((name,))).get(name)

    def attributes(self, thing: int, names: frozenset[bytes]) -> dict[bytes, int]:
        """The values of those of these attributes that an instance has. Raises `Torn`."""
        named = ((self._name(key), value) for key, value in self._attribute_pairs(thing))
        return {name: value for name, value in named if name in names}

    def values(self, thing: int) -> tuple[int, ...]:
        """What the attributes of an instance are bound to. Raises `Torn`."""
        return tuple(value for _, value in self._attribute_pairs(thing))

    def named_values(self, thing: int) -> tuple[tuple[bytes, int], ...]:
        """The same with the names. Raises `Torn`."""
        return tuple((self._name(key), value) for key, value in self._attribute_pairs(thing))

    def slots(self, thing: int) -> tuple[int, ...]:
        """The objects that the words after an object's head point to: its `__slots__`. Raises `Torn`."""
        (size,) = self.words("q", self.word(thing + TYPE) + BASIC_SIZE)
        count = min((size - HEAD) // 8, MOST_OF_CLASS)
        words = self.words(f"{count}Q", thing + HEAD) if count > 0 else ()
        return tuple(word for word in words if self._is_object(word))

    def _is_object(self, word: int) -> bool:
        if not word or word & TAGS:
            return False
        try:
            return self.type_name(self.word(word + TYPE)) == b"type"
        except Torn:
            return False

    def _name(self, key: int) -> bytes:
        """A name, truncated if long; instances of a class share theirs. Empty for a key that is not a string."""
        if key not in self._names:
            is_text = self.flags(key) & TEXT
            self._names[key] = self.text(key, _LONGEST_NAME).encode() if is_text else b""
        return self._names[key]

    def flags(self, thing: int) -> int:
        """`tp_flags` of an object's type. Raises `Torn`."""
        return self._flags_of(self.word(thing + TYPE))

    def _flags_of(self, kind: int) -> int:
        if kind not in self._flags:
            self._flags[kind] = self.word(kind + TYPE_FLAGS)
        return self._flags[kind]

    def _attribute_pairs(self, thing: int) -> Iterator[tuple[int, int]]:
        """(name, value) of each attribute of an instance."""
        kind = self.word(thing + TYPE)
        flags = self._flags_of(kind)
        if self._layout.version < (3, 11) or (flags & HEAP_TYPE and not flags & MANAGED_DICT):
            # This includes a class derived from a C class that keeps a dictionary itself.
            offset = self.word(kind + DICT_OFFSET)
            dictionary, values = (self.word(thing + offset) if 0 < offset < 1 << 16 else 0), 0
        elif flags & MANAGED_DICT:
            dictionary, values = self._managed(thing, kind, flags)
        else:
            return
        if values:
            yield from self._split(self.word(kind + self._layout.cached_keys), values)
        elif dictionary:
            yield from self.pairs(dictionary)

    def _managed(self, thing: int, kind: int, flags: int) -> tuple[int, int]:
        """(dictionary, values) of an instance whose class manages its attributes: one of the two is 0."""
        before, last = self.words("QQ", thing - 32)
        if self._layout.version == (3, 11):
            return (0, before) if before else (last, 0)
        if self._layout.version == (3, 12):
            return (0, last + 1) if last & 1 else (last, 0)
        if last or not flags & INLINE_VALUES:
            return last, 0
        inline = thing + self.word(kind + BASIC_SIZE)
        return (0, inline + 8) if self.read(inline + 3, 1)[0] else (0, 0)

    def named(self, dictionary: int, name: bytes, most: int = MOST_KEYS) -> int | None:
        """The value of a string key; `None` if there is no such key. Raises `Torn`."""
        return next((value for key, value in self.pairs(dictionary, most) if self.spelled(key, (name,))), None)

    def all_named(self, dictionary: int, names: Collection[bytes], most: int = MOST_KEYS) -> dict[bytes, int]:
        """The values of those of these string keys that are in a dictionary, found in one pass. Raises `Torn`."""
        pairs = ((self.spelled(key, names), value) for key, value in self.pairs(dictionary, most))
        return {name: value for name, value in pairs if name is not None}

    def bound(self, dictionary: int, names: Collection[str] | None = None) -> dict[str, int]:
        """The names in a dictionary of variables, or those of these that are there, with what they are bound to; long ones are
        truncated. Raises `Torn`.
        """
        wanted = None if names is None else frozenset(name.encode() for name in names)
        pairs = ((self._name(key), value) for key, value in self.pairs(dictionary))
        return {name.decode(errors="replace"): value for name, value in pairs if wanted is None or name in wanted}

    def table(self, dictionary: int) -> Table | None:
        """The table of a dictionary with values of its own; `None` if it shares its keys with others. Raises `Torn`."""
        keys, values = self.words("QQ", dictionary + 32)
        return None if values else table_at(self, keys, self._layout.version)

    def spelled(self, key: int, names: Collection[bytes]) -> bytes | None:
        """Which of these names a key is; its length and characters are close together, so read at once. Raises `Torn`."""
        length = int.from_bytes(self.read(key + 16, 8), "little")
        alike = [name for name in names if len(name) == length]
        text = self.read(key + self._layout.text, length) if alike else b""
        return text if text in alike else None

    def pairs(self, dictionary: int, most: int = MOST_KEYS) -> Iterator[tuple[int, int]]:
        """(key, value) of a dictionary. Raises `Torn`, also if it has more keys than `most`."""
        keys, values = self.words("QQ", dictionary + 32)
        if values:
            # From 3.13 on the values of a split table follow a head of 8 bytes.
            yield from self._split(keys, values + (8 if self._layout.version >= (3, 13) else 0))
        else:
            yield from ((key, value) for _, key, value in self._entries(keys, most) if value)

    def _split(self, keys: int, values: int) -> Iterator[tuple[int, int]]:
        """(key, value) of a table whose values lie in a separate array."""
        if keys not in self._shared_keys:
            self._shared_keys[keys] = tuple(self._entries(keys))
        entries = self._shared_keys[keys]
        bound = self.words(f"{entries[-1][0] + 1}Q", values) if entries else ()
        yield from ((key, bound[place]) for place, key, _ in entries if bound[place])

    def _entries(self, keys: int, most: int = MOST_KEYS) -> Iterator[tuple[int, int, int]]:
        """(position, key, value) of a PyDictKeysObject; the values of a split table lie elsewhere."""
        table = table_at(self, keys, self._layout.version)
        if not 0 <= table.filled <= most:
            raise Torn
        for first in range(0, table.filled, _BLOCK):
            block = self.read(table.entries + first * table.size, min(_BLOCK, table.filled - first) * table.size)
            for place in range(len(block) // table.size):
                key, value = struct.unpack_from("=QQ", block, place * table.size + table.size - 16)
                if key:
                    yield first + place, key, value


def set_items(objects: Objects, thing: int) -> Iterator[int]:
    """The elements of a set; if it changes meanwhile, perhaps not all of them.

    Raises:
        Torn: it cannot be read, or is larger than `MOST_SLOTS`.
    """
    mask, table = objects.words("QQ", thing + SET_MASK)
    if mask >= MOST_SLOTS:
        raise Torn(TOO_MUCH)
    for first in range(0, mask + 1, _BLOCK):
        count = min(_BLOCK, mask + 1 - first)
        for key, hashed in struct.iter_unpack("=Qq", objects.read(table + 16 * first, 16 * count)):
            if key and hashed != DELETED:
                yield key


def digits_of(size: int, layout: Layout) -> tuple[int, bool]:
    """The number of digits of an `int` and whether it is negative, by its `ob_size`, from 3.12 on its `lv_tag`."""
    return (abs(size), size < 0) if layout.version < (3, 12) else (size >> 3, size & 3 == NEGATIVE)


def integer_of(size: int, digits: Sequence[int], layout: Layout) -> int:
    """The number with these digits; further ones are ignored."""
    count, negative = digits_of(size, layout)
    number = sum(digit << 30 * place for place, digit in enumerate(digits[:count]))
    return -number if negative else number
