"""Finds a caller that frame information does not lead to, because a register is unknown or there is no frame information.

Derived before guessed.  Where the CFA is relative to an unknown register, the pushes are in the frame information, and the rest
of the frame is the `sub $n, %rsp` of the prologue: that gives one place on the stack, which must hold the return address
of a call that leads to this function.  Else the frame pointer is used, if it is known, and else the nearest such return address
on the stack from which unwinding can continue.  x86-64 only.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from mpmon.probes.native.calls import Calls
from mpmon.probes.native.cfi import Rules
from mpmon.probes.native.dwarf import WORD, BadFrames, Registers, Unknown, evaluated
from mpmon.probes.native.effort import Effort
from mpmon.probes.native.machines import Machine
from mpmon.probes.native.outcomes import FRAME_POINTER, JUMPS_TO_IT, MAY_BE, PROLOGUE, SEARCH
from mpmon.probes.native.space import Space, Stack
from mpmon.probes.native.unwind import NoWay, Start, Unwind

SEARCH_LIMIT = 1 << 16
"""Bytes of the stack that are searched for one frame."""

LONGEST_PROLOGUE = 96
LARGEST_FRAME = 1 << 20

STEPS_ON = 3
"""Frames that frame information must yield beyond a frame that was found by searching."""

_MAKES_ROOM = re.compile(rb"\x48\x83\xec(.)|\x48\x81\xec(....)", re.DOTALL)
"""SUB of a byte, or of four, from the stack pointer."""


class Caller(NamedTuple):
    """What was found, and how."""

    registers: dict[int, int]
    how: str
    proof: int | None


class Search:
    """Searches the stacks of one process."""

    def __init__(self, space: Space, unwind: Unwind, calls: Calls, effort: Effort) -> None:
        self._space, self._unwind, self._calls, self._effort = space, unwind, calls, effort
        self._machine: Machine = space.machine

    def caller(self, rules: Rules | None, registers: Registers, stack: Stack, *, exact: bool) -> Caller | None:
        """The caller of the function with these registers; `None` where none can be found.

        Raises:
            Spent: it is too much work.
        """
        extent = self._calls.extent(registers[self._machine.program_counter], exact=exact)
        weak = None
        for how, guess in self._candidates(rules, registers, stack):
            self._effort.take()
            found = self._tried(rules, {**registers, **guess}, stack, bare=guess)
            if found is None:
                continue
            proof = self._calls.proof(found[self._machine.program_counter], extent)
            if proof < (JUMPS_TO_IT if weak or how == FRAME_POINTER else MAY_BE) or not self._goes_on(found, stack):
                continue
            if proof >= JUMPS_TO_IT or how == PROLOGUE:
                return Caller(found, how, proof)
            weak = Caller(found, how, proof)  # the nearest; a better one may be further away
        return weak

    def _tried(
        self, rules: Rules | None, registers: Registers, stack: Stack, bare: dict[int, int]
    ) -> dict[int, int] | None:
        """The caller if these were the registers; `None` where that is no return address."""
        try:
            found = self._unwind.caller(rules, registers, stack) if rules else self._bare(bare, stack)
        except (Unknown, NoWay, Start):
            return None
        return found if self._calls.is_return(found[self._machine.program_counter]) else None

    def _bare(self, guess: dict[int, int], stack: Stack) -> dict[int, int]:
        """The caller without frame information: what the function did to other registers is not known."""
        pointer = guess[self._machine.stack_pointer]
        found = {
            self._machine.stack_pointer: pointer,
            self._machine.program_counter: stack.word_or_zero(pointer - 8),
        }
        if self._machine.frame_pointer in guess:
            found[self._machine.frame_pointer] = guess[self._machine.frame_pointer]
        return found

    # Where it may be

    def _candidates(
        self, rules: Rules | None, registers: Registers, stack: Stack
    ) -> Iterator[tuple[str, dict[int, int]]]:
        """Values for the unknown registers, the likeliest first."""
        pointer = registers[self._machine.stack_pointer]
        if rules is None:
            yield from self._by_frame_pointer(registers, stack)
            for at in self._returns_from(pointer, stack):
                yield SEARCH, {self._machine.stack_pointer: at + 8}
        elif rules.cfa.kind == "register":
            register, offset = rules.cfa.register, rules.cfa.offset
            least = pointer + 8 * (rules.saved + 1)
            for depth in self._depths(rules, registers[self._machine.program_counter]):
                yield PROLOGUE, {register: least + depth - offset & WORD}
            for at in self._returns_from(least - 8, stack):
                yield SEARCH, {register: at + 8 - offset & WORD}
        else:
            yield from self._by_expression(rules, registers, stack)

    def _returns_from(self, first: int, stack: Stack) -> Iterator[int]:
        """Places on the stack with return addresses."""
        end = min(stack.end, first + SEARCH_LIMIT)
        for at in range(first, end - 7, 8):
            self._effort.take()
            if self._calls.is_return(stack.word_or_zero(at)):
                yield at

    def _by_frame_pointer(self, registers: Registers, stack: Stack) -> Iterator[tuple[str, dict[int, int]]]:
        """Functions that keep a frame pointer begin by saving their caller's, right below the return address."""
        pointer = registers.get(self._machine.frame_pointer, 0)
        if registers[self._machine.stack_pointer] <= pointer < stack.end - 16 and pointer % 8 == 0:
            before = stack.word_or_zero(pointer)
            yield FRAME_POINTER, {self._machine.stack_pointer: pointer + 16, self._machine.frame_pointer: before}

    def _by_expression(self, rules: Rules, registers: Registers, stack: Stack) -> Iterator[tuple[str, dict[int, int]]]:
        """For a frame that was aligned: the CFA was saved below the frame pointer."""
        pointer = registers[self._machine.stack_pointer]
        end = min(stack.end, pointer + SEARCH_LIMIT)
        for at in range(pointer, end - 7, 8):
            self._effort.take()
            guess = {self._machine.frame_pointer: at}
            try:
                cfa = evaluated(rules.cfa.code, {**registers, **guess}, stack.word)
            except (Unknown, LookupError, BadFrames):
                continue
            if at < cfa <= end and cfa % 8 == 0 and self._calls.is_return(stack.word_or_zero(cfa - 8)):
                yield SEARCH, guess

    def _depths(self, rules: Rules, counter: int) -> Iterator[int]:
        """How many bytes the function may have reserved below the registers it saved."""
        code = self._space.code(counter)
        start = rules.function.start + code.bias if code else counter
        text = self._space.code_bytes(start, max(0, min(LONGEST_PROLOGUE, counter - start)))
        for found in _MAKES_ROOM.finditer(text):
            size = found[1][0] if found[1] else struct.unpack("<i", found[2])[0]
            if 0 < size < LARGEST_FRAME:
                yield size
                break
        yield 0
        yield 8

    def _goes_on(self, registers: Registers, stack: Stack) -> bool:
        """Whether frame information leads on from there, as far as the registers for it are known."""
        for _ in range(STEPS_ON):
            self._effort.take()
            rules = self._unwind.rules(registers[self._machine.program_counter], exact=False)
            if rules is None:
                return True
            try:
                registers = self._unwind.caller(rules, registers, stack)
            except (Start, Unknown):
                return True
            except NoWay:
                return False
            address = registers[self._machine.program_counter]
            if not rules.function.is_signal and not self._calls.is_return(address):
                return False
        return True
