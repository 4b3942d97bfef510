"""From one function to its caller by frame information alone."""

from __future__ import annotations

from mpmon.probes.native.cfi import Rule, Rules
from mpmon.probes.native.dwarf import WORD, BadFrames, Registers, evaluated, known
from mpmon.probes.native.space import Space, Stack


class NoWay(Exception):
    """Frame information leads nowhere: it is defective, or memory has changed."""


class Start(Exception):
    """This function has no caller: the thread began there."""


class Unwind:
    """Unwinds the frames of one process."""

    def __init__(self, space: Space) -> None:
        self._space = space
        machine = space.machine
        self._pointer, self._counter = machine.stack_pointer, machine.program_counter
        self._kept, self._mask = machine.kept, (1 << machine.address_bits) - 1

    def rules(self, address: int, *, exact: bool) -> Rules | None:
        """The rules that hold at an address: at that very instruction (`exact`), or in the call before it.

        `None` without frame information. The call may be the last instruction of its function, so the address behind it may
        belong to another function.
        """
        code = self._space.code(address)
        if code is None or code.library is None:
            return None
        at = address - code.bias
        found = code.library.rules(at if exact else at - 1)
        if found is None and not exact:
            # No call precedes the address to which a signal handler returns: its entry may begin at this very address.
            trampoline = code.library.rules(at)
            return trampoline if trampoline and trampoline.function.is_signal else None
        return found

    def is_signal(self, address: int) -> bool:
        """A signal handler returns there."""
        rules = self.rules(address, exact=False)
        return rules is not None and rules.function.is_signal

    def caller(self, rules: Rules, registers: Registers, stack: Stack) -> dict[int, int]:
        """The known registers of the caller when this function returns.

        Raises:
            Start: there is no caller.
            NoWay: it cannot be.
            Unknown: a register that is needed is not known.
        """
        returns = rules.function.return_register
        if not rules.has_caller:
            raise Start
        try:
            cfa = self._cfa(rules, registers, stack)
            found = {number: value for number, value in registers.items() if number in self._kept}
            found[self._pointer] = cfa
            for number, rule in rules.registers:
                if rule.kind == "at":
                    found[number] = stack.word((cfa + rule.offset) & WORD)
                elif (value := self._value(rule, cfa, registers, stack)) is not None:
                    found[number] = value
                else:
                    found.pop(number, None)
        except LookupError:
            raise NoWay("the stack cannot be read") from None
        except BadFrames as problem:
            raise NoWay(str(problem)) from None
        address = found.pop(returns, None)
        if address is None:
            # Only a leaf function keeps it in a register, so the kernel would have to report it.
            address = known(registers, returns)
        if not address:
            raise Start
        if cfa <= registers[self._pointer] and not rules.function.is_signal:
            raise NoWay("the stack does not grow")
        found[self._counter] = address & self._mask
        return found

    @staticmethod
    def _cfa(rules: Rules, registers: Registers, stack: Stack) -> int:
        if rules.cfa.kind == "expression":
            return evaluated(rules.cfa.code, registers, stack.word)
        return (known(registers, rules.cfa.register) + rules.cfa.offset) & WORD

    @staticmethod
    def _value(rule: Rule, cfa: int, registers: Registers, stack: Stack) -> int | None:
        if rule.kind == "is":
            return (cfa + rule.offset) & WORD
        if rule.kind == "register":
            return registers.get(rule.register)
        if rule.kind == "at expression":
            return stack.word(evaluated(rule.code, registers, stack.word, cfa))
        if rule.kind == "expression":
            return evaluated(rule.code, registers, stack.word, cfa)
        return None
