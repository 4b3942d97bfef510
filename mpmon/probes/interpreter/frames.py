"""The calls of a process's threads, and what is alive on a call's value stack.

Frames: Include/internal/pycore_frame.h (3.11 and later), Include/cpython/frameobject.h (3.10).
Exception tables: Objects/exception_handling_notes.txt of CPython.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from mpmon.probes.interpreter.codes import Code, Codes
from mpmon.probes.interpreter.layouts import Layout
from mpmon.probes.interpreter.objects import TAGS, TOO_MUCH, Objects, Torn
from mpmon.probes.interpreter.runtime import Runtime
from mpmon.probes.interpreter.walk import PythonThread, Walk
from mpmon.probes.memory import Memory

DEEPEST = 512
"""Slots of one value stack."""

BYTES_AT = 32
"""A `bytes` object to what it holds."""

MOST_TABLE = 1 << 15
"""Bytes of one exception table."""


class Tables:
    """What the calls of one code have in common; it is read once, however deep a recursion is."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self._names: dict[int, frozenset[str]] = {}
        self._exceptions: dict[int, bytes] = {}

    def names(self, address: int) -> frozenset[str]:
        """The texts of a tuple. Raises `Torn`."""
        if address not in self._names:
            items = self.objects.items(address)
            self._names[address] = frozenset(self.objects.text(item & ~TAGS) for item in items)
        return self._names[address]

    def exceptions(self, address: int) -> bytes:
        """A table of exceptions. Raises `Torn`."""
        if address not in self._exceptions:
            size = min(self.objects.word(address + 16), MOST_TABLE)
            self._exceptions[address] = self.objects.read(address + 32, size) if size else b""
        return self._exceptions[address]


class FrameInMemory:
    """One Python call."""

    def __init__(self, tables: Tables, layout: Layout, address: int, code: Code) -> None:
        self._tables = tables
        self._objects = tables.objects
        self._layout = layout
        self._address = address
        self.code = code

    def argument(self, place: int) -> int:
        """The object an argument is bound to, 0 where it was deleted. Raises `Torn`."""
        return self._objects.word(self._address + self._layout.local_variables + 8 * place) & ~TAGS

    def variables(self) -> tuple[int, ...]:
        """What the variables of the call are bound to; for a module its names. Raises `Torn`."""
        if self.code.name == "<module>":
            return self._objects.items(self.module())
        place = self._address + self._layout.local_variables
        # In 3.10 the variables that nested functions use are not counted with the others, but lie there too.
        count = min((self._bottom() - place) // 8, DEEPEST)
        return tuple(value & ~TAGS for value in self._objects.words(f"{count}Q", place)) if count > 0 else ()

    def module(self) -> int:
        """The dictionary of its module. Raises `Torn`."""
        return self._objects.word(self._address + self._layout.global_variables)

    def looked_up(self) -> tuple[int, ...]:
        """What the names of its module that the call looks up are bound to. Raises `Torn`."""
        return self._objects.bound(self.module(), self.names)

    @property
    def names(self) -> frozenset[str]:
        """Globals, attributes and methods it looks up. Raises `Torn`."""
        return self._tables.names(self.code.names_at)

    @cached_property
    def kept(self) -> tuple[int, ...]:
        """Objects that stay on the value stack until a `with` or `try` block around this moment ends. Raises `Torn`."""
        return self._stack(0, self._kept_depth())

    @cached_property
    def upper(self) -> tuple[int, ...]:
        """What lies above: operands of the call it is in, the last first, perhaps with remains of earlier ones."""
        return self._stack(self._kept_depth(), self._top())[::-1]

    @cached_property
    def slots(self) -> tuple[int, ...]:
        """All of the value stack, with remains of what is over. Raises `Torn`."""
        return self._stack(0, self._top())

    def alive(self) -> tuple[int, ...]:
        """What the value stack of a call that is suspended holds, the bottom first. Raises `Torn`."""
        (depth,) = self._objects.words("i", self._address + self._layout.stack_depth)
        # In 3.10 the stack is counted alone, since then with the variables below it.
        return self._stack(0, depth if self._layout.value_stack is not None else depth - self.code.variables)

    def local(self, name: str) -> int:
        """The object a variable is bound to, 0 where there is none of that name or nothing in it. Raises `Torn`."""
        return self.argument(self.code.locals.index(name)) if name in self.code.locals else 0

    def _stack(self, start: int, end: int) -> tuple[int, ...]:
        if not 0 <= start < end <= DEEPEST:
            return ()
        bottom = self._bottom() + 8 * start
        return tuple(value & ~TAGS for value in self._objects.words(f"{end - start}Q", bottom))

    def _bottom(self) -> int:
        if self._layout.value_stack is not None:
            return self._objects.word(self._address + self._layout.value_stack)
        return self._address + self._layout.local_variables + 8 * self.code.variables

    def _top(self) -> int:
        """Slots of the value stack that may be in use."""
        if self._layout.stack_pointer is None:
            return self.code.stack_size
        return (self._objects.word(self._address + self._layout.stack_pointer) - self._bottom()) // 8

    def _kept_depth(self) -> int:
        if self._layout.blocks is not None:
            return self._depth_of_blocks(self._layout.blocks)
        return handler_depth(self._tables.exceptions(self.code.exceptions_at), self.step())

    def step(self) -> int:
        """The instruction it is at now, counted from the first one of its code. Raises `Torn`."""
        if self._layout.blocks is not None:
            return self._objects.words("i", self._address + self._layout.instruction)[0]
        return (self._objects.word(self._address + self._layout.instruction) - self.code.first_instruction) // 2

    def jumps_back(self) -> bool:
        """Whether it is at a jump to an earlier instruction: a loop that is empty has no other. Raises `Torn`."""
        begin = self.code.first_instruction
        if self._layout.blocks is not None:
            begin = self._objects.word(begin) + BYTES_AT
        return self._objects.read(begin + 2 * self.step(), 1)[0] in self._layout.back_jumps

    def _depth_of_blocks(self, blocks: int) -> int:
        """3.10: each block knows the depth to go back to."""
        (count,) = self._objects.words("i", self._address + blocks - 8)
        if not 0 < count <= 20:
            return 0
        _, _, level = self._objects.words("iii", self._address + blocks + 12 * (count - 1))
        return level if 0 <= level <= DEEPEST else 0


def handler_depth(table: bytes, instruction: int) -> int:
    """Depth of the value stack that the handler around an instruction expects; 0 where nothing is handled."""
    numbers = _numbers(table)
    for start, length, _, depth_and_kind in zip(numbers, numbers, numbers, numbers, strict=False):
        if start <= instruction < start + length:
            return min(depth_and_kind >> 1, DEEPEST)
    return 0


def _numbers(table: bytes) -> Iterator[int]:
    """Numbers of six bits a byte, high ones first; bit 6 says that more follows."""
    number = 0
    for byte in table:
        number = number << 6 | byte & 63
        if not byte & 64:
            yield number
            number = 0


class Frames:
    """The frames of all threads of one process."""

    def __init__(self, memory: Memory, objects: Objects, runtime: Runtime) -> None:
        self._memory = memory
        self._tables = Tables(objects)
        self._runtime = runtime
        self._codes: dict[int, Code] = {}

    def threads(self) -> list[PythonThread]:
        """The threads of the interpreter, the youngest first. Raises `Torn`."""
        walk = Walk(self._memory, self._runtime)
        found = walk.threads()
        walk.follow(found)
        wanted = dict.fromkeys(link.code for thread in found for link in thread.links)
        self._codes = Codes(self._runtime.layout).read(self._memory, wanted)
        return found

    def of(self, thread: PythonThread) -> Iterator[FrameInMemory]:
        """The frames of a thread, innermost first. Raises `Torn`."""
        for link in thread.links:
            code = self._codes.get(link.code)
            if code is None:
                raise Torn
            yield FrameInMemory(self._tables, self._runtime.layout, link.address, code)
        if thread.is_cut:
            raise Torn(TOO_MUCH)
        if not thread.is_whole:
            raise Torn
