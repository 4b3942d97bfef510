"""Code objects, decoded once and kept for as long as every byte they were decoded from is unchanged.

A freed code object may be followed by another one at the same address, and even its name and line table may lie at the
old addresses. So all of it is read each time, in two system calls for all code objects, and compared: the constant part
of the object itself, its file, name and variable names, and its line table.

Sources: Include/cpython/code.h, unicodeobject.h, bytesobject.h and tupleobject.h of CPython 3.10 to 3.14.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from weakref import WeakValueDictionary

from mpmon.probes.interpreter.layouts import Layout
from mpmon.probes.interpreter.lines import line_of, line_of_3_10
from mpmon.probes.interpreter.objects import ENCODINGS, TYPE, TYPE_NAME
from mpmon.probes.memory import READ_LIMIT, Memory

LONGEST_TEXT = 4096
"""Most bytes of a name or path: PATH_MAX."""

MOST_NAMES = 512
"""Most variables of one call that are distinguished."""

MOST_CODES = 4096
"""Most code objects of one process at one moment."""

MOST_NAMED = 1 << 15
"""Most names of variables read at once."""

HEAD = 40
"""Bytes of an object up to the end of a string's state (PyASCIIObject)."""

BYTES = 32
"""PyBytesObject.ob_sval"""

MOST_LINES = 1000
"""Most instructions of one code object whose lines are kept."""

_word = struct.Struct("=Q").unpack_from
_half = struct.Struct("=I").unpack_from

Piece = tuple[int, int]


class Code:
    """The needed parts of one code object."""

    def __init__(self, layout: Layout, address: int, text: bytes) -> None:
        """`text` is the constant part of the object."""
        self._first_line = _half(text, layout.first_line)[0]
        self._table = b""
        self._lines: dict[int, int] = {}
        self._is_old = layout.exceptions is None
        self.function = ""
        """Qualified from Python 3.11 on."""
        self.file = ""
        self.locals: tuple[str, ...] = ()
        """Names of its variables, arguments first, without those that nested functions use."""
        self.captured: tuple[str, ...] = ()
        """Names of those, which follow the others; not known in Python 3.10."""
        self.local_count = min(_half(text, layout.local_count)[0], MOST_NAMES)
        self.arguments = _half(text, layout.arguments)[0]
        self.variables = min(_half(text, layout.variables)[0], MOST_NAMES)
        self.stack_size = min(_half(text, layout.stack_size)[0], MOST_NAMES)
        self.first_instruction = address + layout.instructions
        self.names_at = _word(text, layout.names)[0]
        """The tuple of names that the code looks up: globals, attributes and methods."""
        self.exceptions_at = _word(text, layout.exceptions)[0] if layout.exceptions is not None else 0

    @property
    def name(self) -> str:
        """The name without its qualifiers."""
        return self.function.rpartition(".")[2]

    def line(self, instruction: int) -> int:
        """The current line of a frame of this code; see `Link.instruction`."""
        known = self._lines.get(instruction)
        if known is None:
            if len(self._lines) >= MOST_LINES:
                self._lines.clear()
            known = self._lines[instruction] = self._line(instruction)
        return known

    def _line(self, instruction: int) -> int:
        if self._is_old:
            return line_of_3_10(self._table, self._first_line, instruction)
        return line_of(self._table, self._first_line, (instruction - self.first_instruction) // 2)

    def fill(self, function: str, file: str, table: bytes) -> None:
        """Set what was read from the objects it points to."""
        self.function, self.file, self._table = function, file, table


class _Known:
    """A code object and all the bytes it was decoded from."""

    def __init__(self, code: Code, head: bytes, pieces: Sequence[Piece], texts: Sequence[bytes]) -> None:
        self.code = code
        self.head = head
        self.pieces = pieces
        self.texts = texts


_twins: WeakValueDictionary[tuple[object, ...], _Known] = WeakValueDictionary()
"""By these bytes. Forks share the code objects of their parent, at the same addresses, and there are many forks."""


class Codes:
    """The code objects of one process."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._known: dict[int, _Known] = {}
        self.passing: set[int] = set()
        """Addresses at which the last reading found a code object for the first time, or any has found several."""
        self._reused: set[int] = set()
        self._code_type = 0
        """Address of `PyCode_Type`, once seen."""
        self._pointers = (layout.file, layout.qualified_name, layout.lines, layout.local_names)
        numbers = (layout.first_line, layout.local_count, layout.arguments, layout.variables, layout.stack_size)
        self._size = max(*self._pointers, *numbers, layout.names, layout.exceptions or 0) + 8

    def read(self, memory: Memory, addresses: Collection[int]) -> dict[int, Code]:
        """The readable code objects at these addresses, by address."""
        if len(self._known) > MOST_CODES:
            self._known.clear()
            self._reused.clear()
        heads = self._heads(memory, addresses)
        before = {it: self._known.pop(it) for it in addresses if it in self._known}
        kept = {it: known for it, known in before.items() if known.head == heads.get(it)}
        texts = iter(memory.pieces([piece for known in kept.values() for piece in known.pieces]))
        for address, known in kept.items():
            if known.texts == [next(texts) for _ in known.pieces]:
                self._known[address] = known
        fresh = {address: head for address, head in heads.items() if address not in self._known}
        self._reused.update(before.keys() & fresh.keys())
        self.passing = self._reused | fresh.keys()
        if fresh:
            self._decode(memory, fresh)
        return {address: self._known[address].code for address in heads if address in self._known}

    def _heads(self, memory: Memory, addresses: Collection[int]) -> dict[int, bytes]:
        """The constant part of each address that holds a code object, with zeros in place of the rest."""
        counter = self._layout.counter
        texts = memory.pieces([(address, self._size) for address in islice(addresses, MOST_CODES)])
        heads: dict[int, bytes] = {}
        for address, text in zip(addresses, texts, strict=False):
            if text and self._is_code(memory, _word(text, TYPE)[0]):
                # The reference count changes too.
                head = bytes(TYPE) + text[TYPE:]
                heads[address] = head if counter is None else head[:counter] + bytes(4) + head[counter + 4 :]
        return heads

    def _is_code(self, memory: Memory, kind: int) -> bool:
        """The type of code objects is built in, so its address is fixed."""
        if not self._code_type and kind:
            (name,) = memory.pieces([(kind + TYPE_NAME, 8)])
            if name and memory.pieces([(_word(name)[0], 5)]) == [b"code\0"]:
                self._code_type = kind
        return kind == self._code_type and bool(kind)

    def _decode(self, memory: Memory, heads: dict[int, bytes]) -> None:
        """Read the objects they point to in three steps: sizes, contents, names of variables."""
        pointers = [_word(head, at)[0] for head in heads.values() for at in self._pointers]
        pieces = self._sized(memory, pointers)
        texts = memory.pieces(pieces)
        decoded: dict[int, _Known] = {}
        tuples: list[tuple[Code, bytes]] = []
        for place, (address, head) in enumerate(heads.items()):
            own = slice(len(self._pointers) * place, len(self._pointers) * (place + 1))
            file, function, table, names = (text for text in texts[own])
            if not (file and function and names):
                continue
            code = Code(self._layout, address, head)
            code.fill(self._text(function), self._text(file), table[BYTES - TYPE :])
            decoded[address] = _Known(code, head, pieces[own], texts[own])
            tuples.append((code, names[self._layout.tuple_items - TYPE :]))
        self._name_locals(memory, tuples)
        self._known.update((address, self._twin(address, known)) for address, known in decoded.items())

    def _twin(self, address: int, known: _Known) -> _Known:
        """An existing code object decoded from the same bytes, else this one."""
        return _twins.setdefault((self._layout, address, known.head, *known.texts, known.code.locals), known)

    def _sized(self, memory: Memory, pointers: Sequence[int]) -> list[Piece]:
        """The pieces from the type of each object to its end; a file, a name, bytes and a tuple in turn."""
        texts = memory.pieces([(pointer, HEAD) for pointer in pointers])
        measures = (self._text_size, self._text_size, _bytes_size, self._tuple_size)
        return [
            (pointer + TYPE, measures[place % len(measures)](text) - TYPE if text else 0)
            for place, (pointer, text) in enumerate(zip(pointers, texts, strict=True))
        ]

    def _name_locals(self, memory: Memory, tuples: Iterable[tuple[Code, bytes]]) -> None:
        wanted: list[tuple[Code, list[int]]] = []
        left = MOST_NAMED
        for code, items in tuples:
            count = min(len(items) // 8, MOST_NAMES, left)
            left -= count
            wanted.append((code, [_word(items, 8 * place)[0] for place in range(count)]))
        names = self._texts(memory, dict.fromkeys(pointer for _, pointers in wanted for pointer in pointers))
        for code, pointers in wanted:
            found = tuple(names[pointer] for pointer in pointers)
            code.locals, code.captured = found[: code.local_count], found[code.local_count :]

    def _texts(self, memory: Memory, pointers: Collection[int]) -> dict[int, str]:
        heads = memory.pieces([(pointer, HEAD) for pointer in pointers])
        sizes = [self._text_size(head) - TYPE if head else 0 for head in heads]
        texts = memory.pieces([(pointer + TYPE, size) for pointer, size in zip(pointers, sizes, strict=True)])
        return {pointer: self._text(text) for pointer, text in zip(pointers, texts, strict=True)}

    # Strings, bytes and tuples, from their type on

    def _text_size(self, head: bytes) -> int:
        length, (start, width) = _word(head, 16)[0], self._form(_half(head, 32)[0])
        return start + min(length * width, LONGEST_TEXT) if width else 0

    def _text(self, text: bytes) -> str:
        if not text:
            return ""
        start, width = self._form(_half(text, 32 - TYPE)[0])
        return text[start - TYPE :].decode(ENCODINGS[width], "replace") if width else ""

    def _form(self, state: int) -> tuple[int, int]:
        """Offset of the characters of a compact string, and bytes per character; 0 for any other object."""
        kind, compact, ascii_only = state >> 2 & 7, state >> 5 & 1, state >> 6 & 1
        if not compact or kind not in ENCODINGS:
            return 0, 0
        return (self._layout.text if ascii_only else self._layout.wide_text), kind

    def _tuple_size(self, head: bytes) -> int:
        return self._layout.tuple_items + 8 * min(_word(head, 16)[0], MOST_NAMES)


def _bytes_size(head: bytes) -> int:
    """0 for a table too long to read."""
    size = BYTES + _word(head, 16)[0]
    return size if size <= READ_LIMIT else 0
