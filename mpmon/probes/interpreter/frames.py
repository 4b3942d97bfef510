"""The calls of a process's threads, and what is alive on a call's value stack.

Frames: Include/internal/pycore_frame.h (3.11 and later), Include/cpython/frameobject.h (3.10).
Exception tables: Objects/exception_handling_notes.txt of CPython.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from mpmon.probes.interpreter.codes import Code, Codes
from mpmon.probes.interpreter.layouts import Layout
from mpmon.probes.interpreter.objects import TAGS, Objects
from mpmon.probes.interpreter.pages import TOO_MUCH, Torn
from mpmon.probes.interpreter.runtime import Runtime
from mpmon.probes.interpreter.walk import PythonThread, Walk
from mpmon.probes.memory import Memory

DEEPEST = 512
"""Most slots of one value stack."""

NO_HANDLER = -1

BYTES_AT = 32
"""Offset of the content of a `bytes` object."""

MOST_TABLE = 1 << 15
"""Most bytes of one exception table."""


class Tables:
    """What all calls of one code object share; read once, however deep the recursion."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self._names: dict[int, frozenset[str]] = {}
        self._exceptions: dict[int, bytes] = {}

    def names(self, address: int) -> frozenset[str]:
        """The strings of a tuple. Raises `Torn`."""
        if address not in self._names:
            items = self.objects.items(address)
            self._names[address] = frozenset(self.objects.text(item & ~TAGS) for item in items)
        return self._names[address]

    def exceptions(self, address: int) -> bytes:
        """The exception table. Raises `Torn`."""
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

    @property
    def begins_process(self) -> bool:
        """A process of multiprocessing begins with this call: those further out were copied from its parent by a fork."""
        return self.code.name == "_bootstrap" and self.code.file.endswith("multiprocessing/process.py")

    def argument(self, place: int) -> int:
        """The object an argument is bound to; 0 if it was deleted. Raises `Torn`."""
        return self._objects.word(self._address + self._layout.local_variables + 8 * place) & ~TAGS

    def variables(self) -> tuple[int, ...]:
        """What the variables of the call are bound to; for a module, its names. Raises `Torn`."""
        if self.code.name == "<module>":
            return self._objects.items(self.module())
        place = self._address + self._layout.local_variables
        # In 3.10 the variables that nested functions use are not in the count, but follow the others.
        count = min((self._bottom() - place) // 8, DEEPEST)
        return tuple(value & ~TAGS for value in self._objects.words(f"{count}Q", place)) if count > 0 else ()

    def module(self) -> int:
        """The dictionary of the call's module. Raises `Torn`."""
        return self._objects.word(self._address + self._layout.global_variables)

    def looked_up(self) -> dict[str, int]:
        """The module names that the call looks up, with what they are bound to; of a module's code, all. Raises `Torn`."""
        return self._objects.bound(self.module(), None if self.code.name == "<module>" else self.names)

    @property
    def names(self) -> frozenset[str]:
        """Globals, attributes and methods that the call looks up. Raises `Torn`."""
        return self._tables.names(self.code.names_at)

    @cached_property
    def kept(self) -> tuple[int, ...]:
        """Objects that stay on the value stack until a current `with` or `try` block ends. Raises `Torn`."""
        return self._stack(0, self._kept_depth())

    @cached_property
    def upper(self) -> tuple[int, ...]:
        """The rest of the stack: operands of the current call, last first, perhaps with stale ones. Raises `Torn`."""
        return self._stack(self._kept_depth(), self._top())[::-1]

    @cached_property
    def slots(self) -> tuple[int, ...]:
        """The whole value stack, including stale slots. Raises `Torn`."""
        return self._stack(0, self._top())

    def alive(self) -> tuple[int, ...]:
        """The value stack of a suspended call, bottom first. Raises `Torn`."""
        (depth,) = self._objects.words("i", self._address + self._layout.stack_depth)
        # The depth counts the stack alone in 3.10, and the variables below it in later versions.
        return self._stack(0, depth if self._layout.value_stack is not None else depth - self.code.variables)

    def local(self, name: str) -> int:
        """The object a variable is bound to; 0 if there is no such variable or it is unbound. Raises `Torn`."""
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
        """Number of value stack slots that may be in use."""
        if self._layout.stack_pointer is None:
            return self.code.stack_size
        return (self._objects.word(self._address + self._layout.stack_pointer) - self._bottom()) // 8

    def _kept_depth(self) -> int:
        return max(self._handler_depth, 0)

    @property
    def in_try(self) -> bool:
        """Whether it is in a `try` or `with` block. Raises `Torn`."""
        return self._handler_depth != NO_HANDLER

    @cached_property
    def _handler_depth(self) -> int:
        if self._layout.blocks is not None:
            return self._depth_of_blocks(self._layout.blocks)
        return handler_depth(self._tables.exceptions(self.code.exceptions_at), self.step())

    def step(self) -> int:
        """Index of the current instruction in its code. Raises `Torn`."""
        if self._layout.blocks is not None:
            return self._objects.words("i", self._address + self._layout.instruction)[0]
        return (self._objects.word(self._address + self._layout.instruction) - self.code.first_instruction) // 2

    def jumps_back(self) -> bool:
        """Whether it is at a jump to an earlier instruction: an empty loop consists of nothing else. Raises `Torn`."""
        begin = self.code.first_instruction
        if self._layout.blocks is not None:
            begin = self._objects.word(begin) + BYTES_AT
        return self._objects.read(begin + 2 * self.step(), 1)[0] in self._layout.back_jumps

    def _depth_of_blocks(self, blocks: int) -> int:
        """3.10: each block records the depth to return to."""
        (count,) = self._objects.words("i", self._address + blocks - 8)
        if not 0 < count <= 20:
            return NO_HANDLER
        _, _, level = self._objects.words("iii", self._address + blocks + 12 * (count - 1))
        return level if 0 <= level <= DEEPEST else 0


def handler_depth(table: bytes, instruction: int) -> int:
    """Value stack depth that the handler around an instruction expects; `NO_HANDLER` if there is none."""
    numbers = _numbers(table)
    for start, length, _, depth_and_kind in zip(numbers, numbers, numbers, numbers, strict=False):
        if start <= instruction < start + length:
            return min(depth_and_kind >> 1, DEEPEST)
    return NO_HANDLER


def _numbers(table: bytes) -> Iterator[int]:
    """Numbers in six bits per byte, most significant first; bit 6 means that more follows."""
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
        """The threads of the interpreter, youngest first. Raises `Torn`."""
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
