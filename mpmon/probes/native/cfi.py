"""Frame information: how to get from a function that is at an address to its caller.

`.eh_frame` has an entry for each function (FDE), which shares its beginning with others (CIE); the two are programs that
produce rows: from this instruction on, the CFA (the caller's stack pointer) is at this offset from that register, and that
register of the caller is saved there.  The table of `.eh_frame_hdr` is searched by bisection, and only one entry of `.eh_frame`
is read: libtorch_cpu has 335,120 of them in 18 MB.  DWARF 5 (6.4), LSB "Exception Frames".
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from mpmon.probes.native.dwarf import OMITTED, BadFrames, Cursor

LONGEST_ENTRY = 1 << 16
"""Bytes of one FDE or CIE; the longest in libtorch have some hundred."""

MOST_REGISTERS = 128
"""Register numbers are smaller on all supported machines."""

DEEPEST = 64
"""Most rows that a program may save at once (DW_CFA_remember_state)."""

_PIECE = 512
"""Rows of the search table that are read at once."""
_ROW = struct.Struct("<ii")
_SORTED = 0x3B
"""DW_EH_PE_datarel | DW_EH_PE_sdata4: the only encoding of a search table that can be bisected."""

_BYTE, _SHORT, _INT, _LONG = (struct.Struct(layout) for layout in ("<B", "<H", "<I", "<Q"))

View = Callable[[int, int], bytes]
"""Bytes at an address in the file's own numbering; fewer, or none, where there are none."""


class Rule(NamedTuple):
    """How a register of the caller, or the CFA, is found."""

    kind: str
    """`at`: saved at CFA + offset. `is`: the value is CFA + offset. `register`: the value is that register + offset.
    `at expression`, `expression`: saved at the address the expression yields, or the value it yields. `lost`: unrecoverable.
    """
    register: int = 0
    offset: int = 0
    code: bytes = b""


LOST = Rule("lost")

Row = dict[int, Rule]
"""Rules by register; `CFA` is one of them."""

CFA = -1


class Function(NamedTuple):
    """The entry of one function."""

    start: int
    size: int
    code_step: int
    data_step: int
    return_register: int
    is_signal: bool
    """A signal handler returns here: the caller was interrupted and called nothing."""
    beginning: bytes
    program: bytes


class Rules(NamedTuple):
    """What holds at one address of a function."""

    function: Function
    cfa: Rule
    registers: tuple[tuple[int, Rule], ...]
    has_caller: bool
    """There is a return address; the function in which a thread began has none."""

    @property
    def saved(self) -> int:
        """How many registers were saved up to here, the return address not counted."""
        return sum(rule.kind == "at" for number, rule in self.registers if number != self.function.return_register)


def function_at(view: View, table: int, address: int) -> Function | None:
    """The entry that covers an address, by the search table at `table`; `None` where none does.

    Raises:
        BadFrames: the table or the entry makes no sense.
        OSError: as the view.
    """
    cursor = Cursor(view(table, 64), table)
    if cursor.byte() != 1:
        raise BadFrames("a search table of another version")
    frames, counts, rows = cursor.byte(), cursor.byte(), cursor.byte()
    cursor.pointer(frames, table)
    if counts == OMITTED or rows != _SORTED:
        return None
    count = cursor.pointer(counts, table)
    place = _search(view, table + cursor.at, count, address - table)
    if place is None:
        return None
    found = _entry(view, table + place)
    return found if found.start <= address < found.start + found.size else None


def rules_at(function: Function, address: int) -> Rules:
    """
    Raises:
        BadFrames: its program makes no sense.
    """
    first = _run(function.beginning, {}, function, None, {})
    row = _run(function.program, dict(first), function, address, first)
    cfa = row.pop(CFA, None)
    if cfa is None:
        raise BadFrames("no rule for the CFA")
    return Rules(function, cfa, tuple(row.items()), row.get(function.return_register) != LOST)


def _search(view: View, rows: int, count: int, wanted: int) -> int | None:
    """The offset of the entry of the last row that begins at or before `wanted`; all relative to the start of the table."""
    low, high = 0, count
    while high - low > _PIECE:
        middle = (low + high) // 2
        if _row(view(rows + _ROW.size * middle, _ROW.size))[0] <= wanted:
            low = middle
        else:
            high = middle
    piece = view(rows + _ROW.size * low, _ROW.size * (high - low))
    some = list(_ROW.iter_unpack(piece[: len(piece) // _ROW.size * _ROW.size]))
    at = bisect_right(some, wanted, key=lambda row: row[0])
    return some[at - 1][1] if at else None


def _row(text: bytes) -> tuple[int, int]:
    if len(text) < _ROW.size:
        raise BadFrames("the search table is cut")
    return _ROW.unpack(text)


def _record(view: View, address: int) -> Cursor:
    length = Cursor(view(address, 4)).number(_INT)
    if length > LONGEST_ENTRY:
        raise BadFrames("an entry that is too long")
    return Cursor(view(address + 4, length), address + 4)


def _entry(view: View, address: int) -> Function:
    body = _record(view, address)
    back = body.number(_INT)
    if not back:
        raise BadFrames("a CIE in place of an FDE")
    common = _record(view, address + 4 - back)
    if common.number(_INT) != 0:
        raise BadFrames("no CIE where one has to be")
    version, letters = common.byte(), common.text()
    if version not in (1, 3) or letters[:1] not in (b"", b"z"):
        raise BadFrames(f"a CIE of version {version}, {letters[:8]!r}")
    code_step, data_step = common.unsigned(), common.signed()
    return_register = common.byte() if version == 1 else common.unsigned()
    encoding = _augmentation(common, letters)
    start, size = body.pointer(encoding), body.pointer(encoding & 0x0F)
    if letters:
        body.block()
    return Function(
        start, size, code_step, data_step, return_register, b"S" in letters,
        common.data[common.at :], body.data[body.at :],
    )  # fmt: skip


def _augmentation(common: Cursor, letters: bytes) -> int:
    """How the pointers of the entries are encoded; leaves the cursor behind the augmentation data."""
    if not letters:
        return 0
    inside, encoding = Cursor(common.block()), 0
    for letter in letters[1:].decode("latin-1"):
        if letter == "R":
            encoding = inside.byte()
        elif letter == "P":
            # The value does not matter, only its length.
            inside.pointer(inside.byte() & 0x0F)
        elif letter == "L":
            inside.byte()
        elif letter not in "SBG":  # a signal's frame; on aarch64 signed and tagged ones
            raise BadFrames(f"a CIE with {letter!r}")
    return encoding


def _run(program: bytes, row: Row, function: Function, until: int | None, first: Row) -> Row:
    """The row at an address, or at the end of the program."""
    at, here, aside = Cursor(program), function.start, list[Row]()
    while at.left:
        operation = at.byte()
        step = _advance(operation, at)
        if step is not None:
            here += step * function.code_step
        elif operation == 0x01:  # DW_CFA_set_loc
            here = at.number(_LONG)
        elif operation == 0x0A:  # DW_CFA_remember_state
            if len(aside) == DEEPEST:
                raise BadFrames("too many rows put aside")
            aside.append(dict(row))
        elif operation == 0x0B:  # DW_CFA_restore_state
            if not aside:
                raise BadFrames("a row that was not put aside")
            row = aside.pop()
        else:
            _note(operation, at, row, function.data_step, first)
        if until is not None and here > until:
            break
    return row


def _advance(operation: int, at: Cursor) -> int | None:
    """How far the next row is; `None` for an operation that does not begin one."""
    if operation & 0xC0 == 0x40:
        return operation & 0x3F
    shape = {0x02: _BYTE, 0x03: _SHORT, 0x04: _INT}.get(operation)
    return at.number(shape) if shape else None


def _note(operation: int, at: Cursor, row: Row, step: int, first: Row) -> None:
    """One rule for the row: the operations of DWARF 5, table 7.29, and GNU's."""
    high, low = operation & 0xC0, operation & 0x3F
    if high == 0x80:  # DW_CFA_offset
        row[low] = Rule("at", offset=at.unsigned() * step)
    elif high == 0xC0:  # DW_CFA_restore
        _restore(row, low, first)
    elif operation in (0x0C, 0x12):  # DW_CFA_def_cfa, def_cfa_sf
        register = _register(at)
        row[CFA] = Rule("register", register, at.unsigned() if operation == 0x0C else at.signed() * step)
    elif operation == 0x0D:  # DW_CFA_def_cfa_register
        row[CFA] = _cfa(row)._replace(register=_register(at))
    elif operation in (0x0E, 0x13):  # DW_CFA_def_cfa_offset, def_cfa_offset_sf
        row[CFA] = _cfa(row)._replace(offset=at.unsigned() if operation == 0x0E else at.signed() * step)
    elif operation == 0x0F:  # DW_CFA_def_cfa_expression
        row[CFA] = Rule("expression", code=at.block())
    elif operation == 0x2E:  # DW_CFA_GNU_args_size
        at.unsigned()
    elif operation not in (0x00, 0x2D):  # DW_CFA_nop, GNU_window_save or AARCH64_negate_ra_state
        _note_register(operation, at, row, step, first)


def _note_register(operation: int, at: Cursor, row: Row, step: int, first: Row) -> None:
    # The register comes before its operand.
    register = _register(at)
    if operation == 0x05:  # DW_CFA_offset_extended
        row[register] = Rule("at", offset=at.unsigned() * step)
    elif operation == 0x06:  # DW_CFA_restore_extended
        _restore(row, register, first)
    elif operation == 0x07:  # DW_CFA_undefined
        row[register] = LOST
    elif operation == 0x08:  # DW_CFA_same_value
        row.pop(register, None)
    elif operation == 0x09:  # DW_CFA_register
        row[register] = Rule("register", _register(at))
    elif operation == 0x10:  # DW_CFA_expression
        row[register] = Rule("at expression", code=at.block())
    elif operation == 0x11:  # DW_CFA_offset_extended_sf
        row[register] = Rule("at", offset=at.signed() * step)
    elif operation in (0x14, 0x15):  # DW_CFA_val_offset, val_offset_sf
        row[register] = Rule("is", offset=(at.unsigned() if operation == 0x14 else at.signed()) * step)
    elif operation == 0x16:  # DW_CFA_val_expression
        row[register] = Rule("expression", code=at.block())
    else:
        raise BadFrames(f"the operation {operation:#x} in frame information")


def _register(at: Cursor) -> int:
    register = at.unsigned()
    if register >= MOST_REGISTERS:
        raise BadFrames(f"a register {register}")
    return register


def _cfa(row: Row) -> Rule:
    rule = row.get(CFA)
    if rule is None or rule.kind != "register":
        raise BadFrames("a part of a rule for the CFA that there is not")
    return rule


def _restore(row: Row, register: int, first: Row) -> None:
    if register in first:
        row[register] = first[register]
    else:
        row.pop(register, None)
