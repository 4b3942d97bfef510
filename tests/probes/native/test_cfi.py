"""Frame information, entry by entry."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpmon.probes.native.cfi import DEEPEST, LONGEST_ENTRY, Function, Rule, function_at, rules_at
from mpmon.probes.native.dwarf import BadFrames, Cursor, Unknown, evaluated
from tests.probes.native.frames import ENTRIES, TABLE, Frames, cie, record, unsigned

PUSHES_RBP = b"\x41\x0e\x10\x86\x02"
"""One byte further on: the CFA is at 16, RBP lies at 16 below it."""


def function(program: bytes, beginning: bytes = b"\x0c\x07\x08\x90\x01", *, step: int = 1, data: int = -8) -> Function:
    return Function(0x5000, 0x100, step, data, 16, is_signal=False, beginning=beginning, program=program)


def test_the_entry_that_covers_an_address_is_found_among_thousands() -> None:
    frames = Frames([(0x200000 + 64 * number, 48, b"") for number in range(5000)])
    for number in (0, 1, 511, 512, 513, 2499, 4998, 4999):
        start = 0x200000 + 64 * number
        for inside in (0, 47):
            found = function_at(frames.view, TABLE, start + inside)
            assert found is not None
            assert (found.start, found.size) == (start, 48)
        assert function_at(frames.view, TABLE, start + 48) is None, "between two functions there is none"
    assert function_at(frames.view, TABLE, 0x200000 - 1) is None
    frames.bytes = 0
    function_at(frames.view, TABLE, 0x200000)
    assert frames.bytes < 8192, "of a large table only some pieces are read"


def test_rules_change_from_instruction_to_instruction() -> None:
    changing = function(PUSHES_RBP + b"\x43\x0d\x06" + b"\x0a\x4c\xc6\x0c\x07\x08\x41\x0b")
    assert rules_at(changing, 0x5000).cfa == Rule("register", 7, 8)
    assert rules_at(changing, 0x5001).cfa == Rule("register", 7, 16)
    framed = rules_at(changing, 0x5004)
    assert framed.cfa == Rule("register", 6, 16)
    assert dict(framed.registers) == {16: Rule("at", offset=-8), 6: Rule("at", offset=-16)}
    assert framed.saved == 1
    after = rules_at(changing, 0x5010)
    assert after.cfa == Rule("register", 7, 8), "the epilogue"
    assert 6 not in dict(after.registers)
    assert rules_at(changing, 0x5011) == framed, (
        "behind a return that is not the last one the row of before holds again"
    )


def test_a_function_without_a_caller_says_so() -> None:
    assert rules_at(function(b""), 0x5000).has_caller
    assert not rules_at(function(b"\x07\x10"), 0x5000).has_caller


def test_the_frame_of_a_signal_is_told_by_its_letter() -> None:
    found = function_at(Frames([(0x200000, 9, b"")], cie(letters=b"zRS")).view, TABLE, 0x200000)
    assert found
    assert found.is_signal


def test_a_cie_with_a_personality_is_read_over() -> None:
    common = cie(letters=b"zPLR", data=b"\x9b" + bytes(4) + b"\x1b\x1b")
    found = function_at(Frames([(0x200000, 9, b"\x41\x0e\x10")], common).view, TABLE, 0x200004)
    assert found
    assert rules_at(found, 0x200004).cfa.offset == 16


@pytest.mark.parametrize(
    ("common", "words"),
    [
        (cie(letters=b"zQ"), "Q"),
        (cie(letters=b"eh"), "eh"),
        (cie(version=9), "version 9"),
        (cie(data=b"\x5b"), "pointer"),
        (cie(data=b"\x0f"), "pointer"),
        (b"\xff\xff\xff\xff" + bytes(60), "too long"),
        (record(b"\x01\0\0\0" + bytes(20)), "CIE"),
    ],
)
def test_a_cie_that_is_not_understood_is_refused(common: bytes, words: str) -> None:
    with pytest.raises(BadFrames, match=words):
        function_at(Frames([(0x200000, 9, b"")], common).view, TABLE, 0x200000)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (b"\x0b", "put aside"),
        (b"\x0a" * (DEEPEST + 1), "too many"),
        (b"\x3f\x01", "operation 0x3f"),
        (b"\x07" + unsigned(1 << 40), "register"),
        (b"\x0f" + unsigned(1 << 60), "cut"),
        (b"\x0e", "cut"),
        (b"\x0f\x01\x30\x0e\x08", "part of a rule"),
        (b"\x07" + b"\xff" * 12, "64 bits"),
    ],
)
def test_a_program_that_makes_no_sense_is_refused(program: bytes, words: str) -> None:
    with pytest.raises(BadFrames, match=words):
        rules_at(function(program), 0x50FF)


def test_an_entry_of_impossible_length_is_not_read() -> None:
    frames = Frames([(0x200000, 9, b"")])
    at = len(cie())
    frames.entries[at : at + 4] = struct.pack("<I", LONGEST_ENTRY + 1)
    with pytest.raises(BadFrames):
        function_at(frames.view, TABLE, 0x200000)
    assert frames.bytes < 1024


@given(st.data())
def test_frame_information_may_be_cut_or_changed_anywhere(data: st.DataObject) -> None:
    functions = [(0x200000 + 64 * number, 48, PUSHES_RBP + b"\x0f\x05\x77\x08\x80\x00\x22") for number in range(40)]
    frames = Frames(functions, cie(letters=b"zPLR", data=b"\x9b" + bytes(4) + b"\x1b\x1b"))
    for content in (frames.table, frames.entries):
        for at, byte in data.draw(
            st.lists(st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255)), max_size=9)
        ):
            content[at] = byte
        del content[data.draw(st.integers(0, len(content)) | st.just(len(content))) :]
    address = data.draw(st.integers(0x200000, 0x200000 + 64 * 40) | st.integers(0, (1 << 64) - 1))
    try:
        found = function_at(frames.view, TABLE, address)
        if found:
            rules_at(found, address)
    except BadFrames:
        pass
    assert frames.bytes < 1 << 18


@given(st.binary(max_size=300), st.binary(max_size=300), st.integers(-(1 << 66), 1 << 66), st.integers(0, 1 << 65))
def test_a_program_may_be_garbage(beginning: bytes, program: bytes, data: int, step: int) -> None:
    try:
        rules = rules_at(function(program, beginning, step=step, data=data), 0x5010)
    except BadFrames:
        return
    assert all(0 <= number < 128 for number, _ in rules.registers)


# Expressions


def test_an_expression_of_the_plt_counts_what_was_pushed() -> None:
    """breg7 8, breg16 0, lit15, and, lit11, ge, lit3, shl, plus: what every linker writes."""
    code = bytes.fromhex("770880003f1a3b2a332422")
    words = {}.__getitem__
    assert evaluated(code, {7: 0x7FFF0000, 16: 0x1005}, words) == 0x7FFF0008
    assert evaluated(code, {7: 0x7FFF0000, 16: 0x100B}, words) == 0x7FFF0010
    with pytest.raises(Unknown):
        evaluated(code, {7: 0x7FFF0000}, words)


@pytest.mark.parametrize("code", [b"", b"\x22", b"\x06", b"\x12", b"\x2f\xfd\xff", b"\x70", b"\x0e\x01"])
def test_an_expression_that_makes_no_sense_is_refused(code: bytes) -> None:
    with pytest.raises(BadFrames):
        evaluated(code, dict.fromkeys(range(32), 1), lambda _: 0)


@given(st.binary(max_size=400), st.none() | st.integers(0, (1 << 64) - 1))
def test_an_expression_may_be_garbage(code: bytes, first: int | None) -> None:
    def words(address: int) -> int:
        if address % 3 == 0:
            raise LookupError(address)
        return address * 7 % (1 << 64)

    try:
        found = evaluated(code, {number: number << 40 for number in range(20)}, words, first)
    except (BadFrames, Unknown, LookupError):
        return
    assert 0 <= found < 1 << 64


@given(st.binary(max_size=40), st.integers(0, 255), st.integers(0, (1 << 64) - 1))
def test_a_pointer_may_be_garbage(text: bytes, encoding: int, address: int) -> None:
    cursor = Cursor(text, address)
    with contextlib.suppress(BadFrames):
        assert 0 <= cursor.pointer(encoding, ENTRIES) < 1 << 64
