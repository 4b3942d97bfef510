"""What the variables of calls are bound to, read for all calls at once.

For most variables only a digest is needed that shows whether they are bound to something else. Their objects need not
be printed for that: the address identifies an object, and for numbers, strings and containers a few bytes distinguish
objects that occupy the same address one after the other. Variables of the user's calls are printed, and the few others
that rows may keep.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress

from mpmon.probes.calls import KNOWN_KINDS, KNOWN_LOCALS, KNOWN_NUMBERS, KNOWN_WORDS, Call, Local, bare, is_users
from mpmon.probes.interpreter.codes import Code
from mpmon.probes.interpreter.ends import ends_in, ends_of
from mpmon.probes.interpreter.layouts import Layout
from mpmon.probes.interpreter.objects import (
    DICT,
    LIST,
    LONG,
    TAGS,
    TEXT,
    TUPLE,
    TYPE,
    TYPE_FLAGS,
    TYPE_NAME,
    Objects,
    digits_of,
    integer_of,
)
from mpmon.probes.interpreter.pages import Torn
from mpmon.probes.interpreter.printing import BIG, NOT_READ, OBJECT, integer, printed, real
from mpmon.probes.interpreter.sent import file_of
from mpmon.probes.interpreter.walk import Link
from mpmon.probes.memory import Memory

MOST_VALUES = 1 << 15
"""Most variables of one process that are examined."""

MOST_OWNERS = 16
"""Objects of one process whose attributes are searched for connections."""

SENDS = {"_feed": "send_bytes"}
"""Variables of libraries' functions that name a connection as well: the feeder thread of a queue sends to it
(Lib/multiprocessing/queues.py)."""

HEAD = 40
"""Bytes of an object that distinguish it from another one."""

EVENT_WAIT = ("wait", "/threading.py", b"Event")
"""The method that waits for an event: its name, its file, its class (Lib/threading.py)."""

LONGEST_NAME = 16
"""Characters of type names that are distinguished: `numpy.float64`."""

WORD, WORDS = (slice(8, 16),), (slice(8, 24),)
TELLING = ((LONG, WORDS), (LIST, WORDS), (DICT, (slice(8, 16), slice(24, 32))), (TEXT, WORD), (TUPLE, WORD))
"""A number's digits, the address of a list's items, a dictionary's keys, and their count; not a string's hash, which is
set late.
"""

_word = struct.Struct("=Q").unpack_from
_NUMBER, _FLOAT = struct.Struct("=qII").unpack_from, struct.Struct("=d").unpack_from

Place = tuple[Link, Code]


class Values:
    """The variables of one process at one moment."""

    def __init__(self, memory: Memory, layout: Layout) -> None:
        self._memory = memory
        self._layout = layout
        self._objects = Objects(memory, layout)
        self._left = MOST_VALUES
        self._heads: dict[int, bytes] = {}
        """Of objects, starting at their type."""
        self._in_full: dict[int, str] = {}
        self._tokens: dict[int, str] = {}
        self._names: dict[int, bytes] = {}
        """Of types."""
        self._ends_of: dict[int, tuple[int, ...] | None] = {}
        self._telling: dict[int, tuple[slice, ...]] = {}
        """By type, the parts of a head that show an object's value or size."""

    def calls(self, places: Sequence[Place]) -> list[Call]:
        """The calls of these frames, with their variables."""
        bound = self._bound(places)
        self._read(bound)
        files = [file_of(self._objects, self._layout, link, code) for link, code in places]
        return [
            Call(
                code.function, file, code.line(link.instruction), self._locals(code, file, values), link.is_entry,
                ends=self._ends(values if is_users(file) else _sending(code, values)),
                own_ends=self._own_ends(values[0]) if is_users(file) and _is_method(code, values) else (),
                unshared=self._is_unshared(code, file, values, bound),
            )
            for (link, code), file, values in zip(places, files, bound, strict=True)
        ]  # fmt: skip

    def _bound(self, places: Iterable[Place]) -> list[tuple[int, ...]]:
        """The objects to which the variables of each call are bound; 0 if unbound."""
        at = self._layout.local_variables
        found: list[tuple[int, ...]] = []
        missing: list[tuple[int, int]] = []
        for link, code in places:
            count = min(code.local_count, self._left)
            self._left -= count
            own = link.text[at : at + 8 * count]
            found.append(struct.unpack(f"={len(own) // 8}Q", own[: len(own) // 8 * 8]))
            missing.append((link.address + at, 8 * count if len(found[-1]) < count else 0))
        if any(size for _, size in missing):
            for place, text in enumerate(self._memory.pieces(missing)):
                if text:
                    found[place] = struct.unpack(f"={len(text) // 8}Q", text)
        return [tuple(word & ~TAGS for word in words) for words in found]

    def _read(self, bound: Iterable[tuple[int, ...]]) -> None:
        things = dict.fromkeys(word for words in bound for word in words if word and word not in self._heads)
        self._heads.update(
            zip(things, self._memory.pieces([(thing + TYPE, HEAD - TYPE) for thing in things]), strict=True)
        )
        kinds = dict.fromkeys(_word(head)[0] for head in self._heads.values() if head)
        size = TYPE_FLAGS - TYPE_NAME + 8
        texts = self._memory.pieces([(kind + TYPE_NAME, size) for kind in kinds])
        names = self._memory.pieces([(_word(text)[0] if text else 0, LONGEST_NAME) for text in texts])
        for kind, text, name in zip(kinds, texts, names, strict=True):
            flags = _word(text, TYPE_FLAGS - TYPE_NAME)[0] if text else 0
            self._names[kind] = name.partition(b"\0")[0]
            self._telling[kind] = next((it for flag, it in TELLING if flags & flag), ())

    def _locals(self, code: Code, file: str, values: Sequence[int]) -> list[Local]:
        name = bare(code.function)
        kept = KNOWN_LOCALS.get(name, frozenset[str]()) | KNOWN_NUMBERS | {KNOWN_WORDS.get(name, "")}
        is_own, of_kind = is_users(file), KNOWN_KINDS.get(name)
        return [
            Local(
                variable, value, place < code.arguments,
                self._with_kind(value) if variable == of_kind else self._text(value, in_full=is_own or variable in kept),
            )
            for place, (variable, value) in enumerate(zip(code.locals, values, strict=False)) if value
        ]  # fmt: skip

    def _ends(self, values: Iterable[int]) -> tuple[int, ...]:
        """`Frame.ends`."""
        heads = ((value, self._heads.get(value)) for value in values if value)
        return ends_in(self._objects, [(value, self._names[_word(head)[0]]) for value, head in heads if head])

    def _own_ends(self, instance: int) -> tuple[int, ...] | None:
        """`Frame.own_ends` of an object, whose methods call each other; `None` of further ones if there are many."""
        if instance not in self._ends_of and len(self._ends_of) >= MOST_OWNERS:
            return None
        if instance not in self._ends_of:
            self._ends_of[instance] = ends_of(self._objects, instance)
        return self._ends_of[instance]

    def _is_unshared(self, code: Code, file: str, values: Sequence[int], bound: Sequence[Sequence[int]]) -> bool:
        """`Frame.unshared`: the event has no reference but the call's, and no other variable has it without one."""
        name, module, kind = EVENT_WAIT
        head = self._heads.get(values[0]) if bare(code.function) == name and file.endswith(module) and values else None
        if not head or self._names[_word(head)[0]] != kind:
            return False
        with suppress(Torn):
            count = self._objects.word(values[0])
            return count <= self._layout.own_references and sum(row.count(values[0]) for row in bound) == 1
        return False

    def _text(self, value: int, *, in_full: bool) -> str:
        texts = self._in_full if in_full else self._tokens
        if value not in texts:
            texts[value] = self._printed(value) if in_full else self._token(value)
        return texts[value]

    def _with_kind(self, value: int) -> str:
        """Its text, or else its type."""
        text, head = self._printed(value), self._heads.get(value)
        return OBJECT + self._names[_word(head)[0]].decode(errors="replace") if text == OBJECT and head else text

    def _printed(self, value: int) -> str:
        """The text of a value; for most values, from their heads, which are read already."""
        head = self._heads.get(value)
        if not head:
            return NOT_READ
        (kind,) = _word(head)
        name, telling = self._names[kind], self._telling[kind]
        if name in (b"int", b"bool"):
            size, low, high = _NUMBER(head, 8)
            if digits_of(size, self._layout)[0] > 2:
                return BIG
            return integer(integer_of(size, (low, high), self._layout), is_bool=name == b"bool")
        if name == b"float":
            return real(*_FLOAT(head, 8))
        return printed(self._objects, value) if telling or name.startswith(b"numpy.") or name == b"NoneType" else OBJECT

    def _token(self, value: int) -> str:
        """A text that stays the same while the object is the same and holds as much."""
        head = self._heads.get(value)
        if not head:
            return OBJECT
        (kind,) = _word(head)
        telling = WORD if self._names[kind] == b"float" else self._telling[kind]
        return OBJECT + "".join(head[part].hex() for part in telling)


def _sending(code: Code, values: Sequence[int]) -> list[int]:
    """What the variable in `SENDS` is bound to."""
    wanted = SENDS.get(bare(code.function))
    return [value for name, value in zip(code.locals, values, strict=False) if name == wanted]


def _is_method(code: Code, values: Sequence[int]) -> bool:
    return code.locals[:1] == ("self",) and bool(values) and values[0] != 0
