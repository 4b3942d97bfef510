"""Unwinds the whole stack: from where a thread is now up to where it began."""

from __future__ import annotations

from typing import NamedTuple

from mpmon.probes.native.calls import Calls
from mpmon.probes.native.dwarf import Registers, Unknown
from mpmon.probes.native.effort import Effort, Spent
from mpmon.probes.native.lost import Caller, Search
from mpmon.probes.native.outcomes import BOUNDED, FRAME_INFORMATION, LOST, REGISTERS, SAMPLE, START
from mpmon.probes.native.samples import Sample
from mpmon.probes.native.space import CopiedStack, Space, Stack
from mpmon.probes.native.standing import Standing
from mpmon.probes.native.unwind import NoWay, Start, Unwind

MOST_FRAMES = 400
"""Most frames of one thread; the innermost are kept."""


class Step(NamedTuple):
    """One frame."""

    program_counter: int
    stack_pointer: int
    how: str
    proof: int | None
    exact: bool
    """The frame is at this very instruction; else in the call before it."""


class Climb(NamedTuple):
    """All frames of a thread that were found, and why there are no more."""

    steps: tuple[Step, ...]
    end: str
    why: str | None = None


class _End(Exception):
    def __init__(self, end: str, why: str | None = None) -> None:
        super().__init__(end, why)
        self.end, self.why = end, why


class Climber:
    """Unwinds the threads of one process."""

    def __init__(self, space: Space, effort: Effort) -> None:
        self._space, self._effort = space, effort
        self._machine = space.machine
        self._unwind = Unwind(space)
        self._calls = Calls(space, self._unwind, effort)
        self._search = Search(space, self._unwind, self._calls, effort)

    def climb(self, where: Standing) -> Climb:
        """The stack of a sleeping thread."""
        registers: Registers = {
            self._machine.stack_pointer: where.stack_pointer, self._machine.program_counter: where.program_counter
        }  # fmt: skip
        return self._climb(registers, Stack(self._space, where.stack_pointer), REGISTERS)

    def climb_sample(self, sample: Sample) -> Climb:
        """The stack of a running thread at the moment of the sample."""
        stack = CopiedStack(self._space, sample.registers[self._machine.stack_pointer], sample.stack)
        return self._climb(sample.registers, stack, SAMPLE)

    def _climb(self, registers: Registers, stack: Stack, how: str) -> Climb:
        self._effort.begin()
        steps = [self._step(registers, how, None, exact=True)]
        try:
            while len(steps) < MOST_FRAMES:
                exact = steps[-1].exact
                (registers, how, proof), exact = self._caller(registers, stack, exact=exact)
                steps.append(self._step(registers, how, proof, exact=exact))
        except _End as end:
            return Climb(tuple(steps), end.end, end.why)
        except Spent:
            return Climb(tuple(steps), BOUNDED, "too much work")
        return Climb(tuple(steps), BOUNDED, f"more than {MOST_FRAMES} frames")

    def _step(self, registers: Registers, how: str, proof: int | None, *, exact: bool) -> Step:
        counter, pointer = registers[self._machine.program_counter], registers[self._machine.stack_pointer]
        return Step(counter, pointer, how, proof, exact)

    def _caller(self, registers: Registers, stack: Stack, *, exact: bool) -> tuple[Caller, bool]:
        """The next frame, and whether it is at its very instruction, as a frame that a signal interrupted is."""
        self._effort.take()
        rules = self._unwind.rules(registers[self._machine.program_counter], exact=exact)
        if rules and rules.function.is_signal and not self._machine.follows_signals:
            raise _End(LOST, "frame information does not tell what a signal has interrupted")
        try:
            if rules:
                found = self._unwind.caller(rules, registers, stack)
                self._check(found, is_signal=rules.function.is_signal)
                return Caller(found, FRAME_INFORMATION, None), rules.function.is_signal
        except Start:
            raise _End(START) from None
        except NoWay as problem:
            raise _End(LOST, str(problem)) from None
        except Unknown:
            pass
        found = self._search.caller(rules, registers, stack, exact=exact) if self._machine.reads_code else None
        if found is None:
            raise _End(LOST, self._why_lost(registers, has_rules=rules is not None))
        return found, False

    def _check(self, found: Registers, *, is_signal: bool) -> None:
        """The caller must be at a return address, unless a signal interrupted it."""
        address = found[self._machine.program_counter]
        if self._space.code(address) is None or (
            self._machine.reads_code and not is_signal and not self._calls.is_return(address)
        ):
            raise _End(LOST, "there is no return address where one has to be")

    def _why_lost(self, registers: Registers, *, has_rules: bool) -> str:
        if has_rules:
            return "a register that is needed is not known"
        code = self._space.code(registers[self._machine.program_counter])
        if code is None:
            return "it stands where there is no code"
        name = code.area.path.rpartition("/")[2] or "code"
        return f"{name} {code.problem or 'has no frame information there'}"
