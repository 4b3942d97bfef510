"""Stacks of aarch64, made by hand: there is no such machine here."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import pytest

from mpmon.probes.maps import Area
from mpmon.probes.native.cfi import Function, Rules, rules_at
from mpmon.probes.native.climb import Climb, Climber
from mpmon.probes.native.effort import Effort
from mpmon.probes.native.machines import AARCH64, X86_64, machine_of
from mpmon.probes.native.outcomes import FRAME_INFORMATION, LOST, START
from mpmon.probes.native.standing import Standing
from tests.probes.garbage import maps_line

CODE, STACK = 0x400000, 0x7F0000
FRAME = b"\x0e\x20\x9d\x04\x9e\x03"
"""`stp x29, x30, [sp, -32]!`: the CFA is 32 further up, and both lie at its bottom."""
SIGNED = 0x00AB << 48
"""What pointer authentication puts into the upper bits of a return address."""


class Process:
    """A space whose code is one file with these functions, 256 bytes each, and a stack of these words."""

    machine = AARCH64

    def __init__(self, programs: list[bytes], words: list[int], signals: frozenset[int] = frozenset()) -> None:
        self._programs, self._signals = programs, signals
        self._area = Area(maps_line(CODE, CODE + 0x1000, rights="r-xp", inode=7, path="/lib/libc.so.6").strip())
        self._stack = Area(maps_line(STACK, STACK + 0x1000).strip())
        self._text = struct.pack(f"<{len(words)}Q", *words)
        self.memory = self

    def area(self, address: int) -> Area | None:
        return next((area for area in (self._area, self._stack) if area.start <= address < area.end), None)

    def code(self, address: int) -> SimpleNamespace | None:
        if self.area(address) is not self._area:
            return None
        return SimpleNamespace(area=self._area, library=self, bias=CODE, problem=None)

    def rules(self, address: int) -> Rules | None:
        number = address // 256
        if not 0 <= number < len(self._programs):
            return None
        first = Function(
            256 * number, 256, 4, -8, 30, is_signal=number in self._signals, beginning=b"\x0c\x1f\x00",
            program=self._programs[number],
        )  # fmt: skip
        return rules_at(first, address)

    def read_some(self, address: int, size: int) -> bytes:
        return self._text[address - STACK :][:size] if address >= STACK else b""

    def word(self, address: int) -> int:
        raise LookupError(address)


def climb(process: Process) -> Climb:
    return Climber(process, Effort()).climb(Standing(STACK, CODE + 0x40))  # type: ignore[arg-type]


def test_a_function_with_a_frame_leads_to_its_caller_also_where_addresses_are_signed() -> None:
    words = [0, (CODE + 0x140) | SIGNED, 0, 0, 0, CODE + 0x240, 0, 0]
    found = climb(Process([FRAME, b"\x2d" + FRAME, b"\x07\x1e"], words))
    assert [step.program_counter for step in found.steps] == [CODE + 0x40, CODE + 0x140, CODE + 0x240]
    assert [step.how for step in found.steps[1:]] == [FRAME_INFORMATION] * 2
    assert [step.stack_pointer for step in found.steps] == [STACK, STACK + 32, STACK + 64]
    assert found.end == START


def test_a_function_that_has_saved_nothing_loses_its_caller_and_says_so() -> None:
    found = climb(Process([b""], [CODE + 0x140] * 8))
    assert (len(found.steps), found.end) == (1, LOST)
    assert found.why == "a register that is needed is not known"


def test_the_link_register_is_not_taken_for_that_of_the_caller() -> None:
    found = climb(Process([FRAME, b""], [0, CODE + 0x140, 0, 0, *[CODE + 0x140] * 8]))
    assert (len(found.steps), found.end) == (2, LOST)


def test_what_a_signal_interrupted_is_not_told() -> None:
    words = [0, CODE + 0x140, 0, 0] * 8
    found = climb(Process([FRAME, FRAME], words, frozenset({1})))
    assert (len(found.steps), found.end) == (2, LOST)
    assert "signal" in (found.why or "")


@pytest.mark.parametrize(
    ("name", "machine"), [("x86_64", X86_64), ("aarch64", AARCH64), ("riscv64", None), ("i686", None)]
)
def test_other_machines_are_not_understood(name: str, machine: object) -> None:
    assert machine_of(name) is machine
