"""What the code reveals about calls: whether an address is a return address, and which function that call calls. x86-64 only.

The rule that makes a search on the stack right: a direct call names its target, so a return address behind a call of another
function is a leftover and no caller.  Without it a buffer full of old return addresses gave 59 wrong frames
(measured); with it none.  Intel's manual, volume 2: CALL, JMP, Jcc.
"""

from __future__ import annotations

import re
import struct

from mpmon.probes.native.dwarf import WORD
from mpmon.probes.native.effort import Effort
from mpmon.probes.native.outcomes import JUMPS_TO_IT, MAY_BE, NAMES_IT
from mpmon.probes.native.space import Space
from mpmon.probes.native.unwind import Unwind

LOWEST = 4096
"""No code lies below."""

LONGEST_FUNCTION = 1 << 16
"""Bytes of a function that are searched for jumps."""

MOST_STUBS = 3
"""Jumps from the target of a call to the function itself: through the PLT."""

_LONGEST_CALL = 7
_JUMPS = re.compile(rb"(?:\xe9|\x0f[\x80-\x8f])(?=(.{4}))", re.DOTALL)
"""JMP and Jcc, with their target."""
_FAR = struct.Struct("<i")
_ENDBR = b"\xf3\x0f\x1e\xfa"
_NO_FUNCTION = (0, 0)


class Calls:
    """The calls in the code of one process; results are cached."""

    def __init__(self, space: Space, unwind: Unwind, effort: Effort) -> None:
        self._space, self._unwind, self._effort = space, unwind, effort
        self._returns: dict[int, bool] = {}
        self._targets: dict[int, int | None] = {}
        self._jumps: dict[tuple[int, int], bool] = {}

    def is_return(self, address: int) -> bool:
        """A call returns there, or a signal handler."""
        if address < LOWEST:
            return False
        found = self._returns.get(address)
        if found is None:
            self._effort.take()
            found = self._returns[address] = bool(self._call_before(address)) or self._unwind.is_signal(address)
        return found

    def proof(self, address: int, extent: tuple[int, int]) -> int:
        """What proves that the call that returns there led into the function with this extent; 0 where it leads elsewhere."""
        target = self._target(address)
        if target is None or extent == _NO_FUNCTION:
            return MAY_BE
        if target == extent[0]:
            return NAMES_IT
        return JUMPS_TO_IT if self._jumps_into(target, extent) else 0

    def extent(self, address: int, *, exact: bool) -> tuple[int, int]:
        """Where the function at this address begins and ends; zeros where unknown."""
        code = self._space.code(address)
        if code is None or code.library is None:
            return _NO_FUNCTION
        rules = self._unwind.rules(address, exact=exact)
        if rules:
            start = rules.function.start + code.bias
            return start, start + rules.function.size
        self._effort.take(1000)
        found = code.library.extent(address - code.bias - (not exact))
        return (found[0] + code.bias, found[1] + code.bias) if found else _NO_FUNCTION

    def _call_before(self, address: int) -> bytes:
        """The call that returns there; empty where there is none."""
        code = self._space.code(address - 1)
        text = self._space.code_bytes(address - _LONGEST_CALL, _LONGEST_CALL) if code else b""
        if len(text) < _LONGEST_CALL:
            return b""
        if text[2] == 0xE8 and self._space.code(address + _FAR.unpack_from(text, 3)[0] & WORD):
            return text[2:]
        for size in (2, 3, 4, 6, 7):
            at = _LONGEST_CALL - size
            if text[at] == 0xFF and text[at + 1] >> 3 & 7 == 2 and _operand_size(text[at + 1 :]) == size - 1:
                return text[at:]
        return b""

    def _target(self, address: int) -> int | None:
        """The target of the call before this return address; `None` where a register or memory decides."""
        if address not in self._targets:
            call, found = self._call_before(address), None
            if call[:1] == b"\xe8":
                found = self._behind(address + _FAR.unpack_from(call, 1)[0] & WORD)
            elif call[:2] == b"\xff\x15":  # through the GOT
                found = self._word(address + _FAR.unpack_from(call, 2)[0])
            self._targets[address] = found
        return self._targets[address]

    def _behind(self, target: int) -> int:
        """The function itself, following a PLT entry or a plain jump."""
        for _ in range(MOST_STUBS):
            self._effort.take()
            text = self._space.code_bytes(target, 16)
            at = 4 if text.startswith(_ENDBR) else 0
            at += text[at : at + 1] in (b"\xf2", b"\x3e")  # prefixes: BND, NOTRACK
            if text[at : at + 2] == b"\xff\x25" and len(text) >= at + 6:
                target = self._word(target + at + 6 + _FAR.unpack_from(text, at + 2)[0]) or 0
            elif text[at : at + 1] == b"\xe9" and len(text) >= at + 5:
                target = target + at + 5 + _FAR.unpack_from(text, at + 1)[0] & WORD
            else:
                break
        return target

    def _word(self, address: int) -> int | None:
        try:
            return self._space.word(address)
        except LookupError:
            return None

    def _jumps_into(self, target: int, extent: tuple[int, int]) -> bool:
        """Whether the function there jumps into the other: a tail call, or the other is its own cold part that was moved away."""
        key = target, extent[0]
        if key not in self._jumps:
            self._jumps[key] = self._has_jump(*self.extent(target, exact=True), extent)
        return self._jumps[key]

    def _has_jump(self, start: int, end: int, extent: tuple[int, int]) -> bool:
        text = self._space.code_bytes(start, min(end - start, LONGEST_FUNCTION)) if start < end else b""
        for jump in _JUMPS.finditer(text):
            self._effort.take()
            to = start + jump.end() + 4 + _FAR.unpack(jump[1])[0] & WORD
            if extent[0] <= self._behind(to) < extent[1]:
                return True
        return False


def _operand_size(text: bytes) -> int:
    """Bytes of the operand of a call through a register or memory: ModRM, SIB and displacement."""
    mode, register = text[0] >> 6, text[0] & 7
    if mode == 3:
        return 1
    size = 1
    if register == 4:
        size += 1
        if mode == 0 and len(text) > 1 and text[1] & 7 == 5:
            size += 4
    if mode == 0 and register == 5:
        size += 4
    return size + (0, 1, 4)[mode]
