"""Numbers, pointers and expressions of frame information: DWARF 5 (2.5, 7.6), and LSB's "DWARF Extensions".

The input comes from the job's files and is untrusted: reading never passes its last byte, and malformed data raises
`BadFrames`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

WORD = (1 << 64) - 1

OMITTED = 0xFF
"""DW_EH_PE_omit"""

_LONGEST_NUMBER = 10
"""Bytes of a 64-bit number of variable length (LEB128)."""

_SHAPES = {shape: struct.Struct(layout) for shape, layout in {
    0x00: "<Q", 0x02: "<H", 0x03: "<I", 0x04: "<Q", 0x0A: "<h", 0x0B: "<i", 0x0C: "<q",
}.items()}  # fmt: skip
"""DW_EH_PE_absptr, udata2 to udata8, sdata2 to sdata8."""

Registers = Mapping[int, int]
"""The known registers, by number."""

Words = Callable[[int], int]
"""Reads the word at an address; LookupError where there is none."""


class BadFrames(ValueError):
    """Frame information that is malformed, or of an unsupported kind."""


class Unknown(Exception):
    """A register that is needed is not known."""

    def __init__(self, register: int) -> None:
        super().__init__(register)
        self.register = register


class Cursor:
    """Reads numbers from bytes at a known address."""

    def __init__(self, data: bytes, address: int = 0, at: int = 0) -> None:
        self.data, self.address, self.at = data, address, at

    @property
    def left(self) -> bool:
        """There is more."""
        return self.at < len(self.data)

    def number(self, shape: struct.Struct) -> int:
        """A number of fixed length.

        Raises:
            BadFrames: it is truncated; so do all methods below.
        """
        if self.at + shape.size > len(self.data):
            raise BadFrames("cut")
        (value,) = shape.unpack_from(self.data, self.at)
        self.at += shape.size
        return value

    def byte(self) -> int:
        """One byte."""
        if not 0 <= self.at < len(self.data):
            raise BadFrames("cut")
        self.at += 1
        return self.data[self.at - 1]

    def unsigned(self) -> int:
        """LEB128."""
        return self._number()[0] & WORD

    def signed(self) -> int:
        """LEB128."""
        value, bits = self._number()
        return value - (1 << bits) if value >> (bits - 1) else value

    def _number(self) -> tuple[int, int]:
        value = 0
        for turn in range(_LONGEST_NUMBER):
            byte = self.byte()
            value |= (byte & 0x7F) << 7 * turn
            if byte < 0x80:
                return value, 7 * turn + 7
        raise BadFrames("a number of more than 64 bits")

    def block(self) -> bytes:
        """Bytes that are preceded by their length."""
        return self.bytes(self.unsigned())

    def bytes(self, size: int) -> bytes:
        """The next `size` bytes."""
        if self.at + size > len(self.data):
            raise BadFrames("cut")
        self.at += size
        return self.data[self.at - size : self.at]

    def text(self) -> bytes:
        """The bytes up to a NUL."""
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise BadFrames("cut")
        begin, self.at = self.at, end + 1
        return self.data[begin:end]

    def pointer(self, encoding: int, table: int = 0) -> int:
        """An address: as it is, from here, or from the start of a table (DW_EH_PE_absptr, pcrel, datarel)."""
        here, shape = self.address + self.at, encoding & 0x0F
        if shape == 0x01:
            value = self.unsigned()
        elif shape == 0x09:
            value = self.signed()
        elif shape in _SHAPES:
            value = self.number(_SHAPES[shape])
        else:
            raise BadFrames(f"a pointer of the kind {encoding:#x}")
        bases = {0x00: 0, 0x10: here, 0x30: table}
        if encoding & 0x70 not in bases:
            raise BadFrames(f"a pointer of the kind {encoding:#x}")
        return (value + bases[encoding & 0x70]) & WORD if value else 0


_CONSTANTS = {operation: struct.Struct(layout) for operation, layout in {
    0x08: "<B", 0x09: "<b", 0x0A: "<H", 0x0B: "<h", 0x0C: "<I", 0x0D: "<i", 0x0E: "<Q", 0x0F: "<q",
}.items()}  # fmt: skip

_ON_TWO: dict[int, Callable[[int, int], int]] = {
    0x1A: lambda a, b: a & b,
    0x1C: lambda a, b: a - b,
    0x21: lambda a, b: a | b,
    0x22: lambda a, b: a + b,
    0x24: lambda a, b: a << (b & 63),
    0x25: lambda a, b: a >> (b & 63),
    0x29: lambda a, b: int(a == b),
    0x2A: lambda a, b: int(_signed(a) >= _signed(b)),
    0x2B: lambda a, b: int(_signed(a) > _signed(b)),
    0x2C: lambda a, b: int(_signed(a) <= _signed(b)),
    0x2D: lambda a, b: int(_signed(a) < _signed(b)),
    0x2E: lambda a, b: int(a != b),
}


def evaluated(code: bytes, registers: Registers, words: Words, first: int | None = None) -> int:
    """The value of an expression; `first` is on its stack initially.

    Only the operations that compilers use in frame information. None of them jumps back, so evaluation terminates.

    Raises:
        BadFrames: another operation, or too little on the stack.
        Unknown: a register that is not known.
        LookupError: memory that cannot be read.
    """
    stack, at = [] if first is None else [first], Cursor(code)
    try:
        while at.left:
            _do(at.byte(), at, stack, registers, words)
        return stack[-1]
    except IndexError:
        raise BadFrames("an expression without operands") from None


def known(registers: Registers, register: int) -> int:
    """The value of a register.

    Raises:
        Unknown: nobody knows.
    """
    value = registers.get(register)
    if value is None:
        raise Unknown(register)
    return value


def _do(operation: int, at: Cursor, stack: list[int], registers: Registers, words: Words) -> None:
    if 0x70 <= operation <= 0x8F:  # DW_OP_breg0 and so on
        stack.append((known(registers, operation - 0x70) + at.signed()) & WORD)
    elif 0x30 <= operation <= 0x4F:  # DW_OP_lit0 and so on
        stack.append(operation - 0x30)
    elif operation in _CONSTANTS:
        stack.append(at.number(_CONSTANTS[operation]) & WORD)
    elif operation in _ON_TWO:
        second = stack.pop()
        stack.append(_ON_TWO[operation](stack.pop(), second) & WORD)
    elif operation == 0x06:  # DW_OP_deref
        stack.append(_word(words, stack.pop()))
    elif operation == 0x10:  # DW_OP_constu
        stack.append(at.unsigned())
    elif operation == 0x11:  # DW_OP_consts
        stack.append(at.signed() & WORD)
    elif operation == 0x12:  # DW_OP_dup
        stack.append(stack[-1])
    elif operation == 0x23:  # DW_OP_plus_uconst
        stack.append((stack.pop() + at.unsigned()) & WORD)
    else:
        raise BadFrames(f"the operation {operation:#x} in an expression")


def _word(words: Words, address: int) -> int:
    try:
        return words(address)
    except IndexError:
        raise LookupError(address) from None


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
