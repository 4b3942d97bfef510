"""Suspended coroutines: from a task inwards, which call awaits which, down to what the innermost call awaits.

The awaited object is on top of a suspended call's value stack: another coroutine, a generator, or one step of an
asynchronous generator; in the end an iterator over a future.  The frame of a coroutine lies in the coroutine itself, in
3.10 elsewhere.

Sources: Include/cpython/genobject.h, Objects/genobject.c, Modules/_asynciomodule.c of CPython 3.10 to 3.13.
"""

from __future__ import annotations

from typing import NamedTuple

from mpmon.probes.interpreter.layouts import Layout
from mpmon.probes.interpreter.objects import TAGS, Objects
from mpmon.probes.interpreter.pages import Torn

MOST_CALLS = 64
"""Most calls of one task that are followed: the outermost ones."""

MOST_DEPTH = 2000
"""Most variables and operands of one call."""

CALLS = frozenset({b"coroutine", b"generator", b"async_generator"})

WRAPPERS = frozenset({
    b"coroutine_wrapper", b"async_generator_asend", b"async_generator_athrow", b"anext_awaitable", b"_asyncio.FutureIter",
})  # fmt: skip
"""Types that stand for the object that the first word after their head points to."""

WRAPPED_AT = 16

EXECUTING = 0
"""`PyFrameState`: lower while suspended, higher once ended."""


class Call(NamedTuple):
    """One call of a coroutine."""

    frame: int
    code: int
    instruction: int
    """As in `Link`."""


class Chain(NamedTuple):
    """The calls of one task."""

    calls: tuple[Call, ...]
    """Outermost first."""
    awaited: int
    """What the innermost call awaits; 0 if unknown."""
    runs: bool = False
    """The innermost call, or a function it called, is running."""
    begun: bool = True
    is_cut: bool = False
    """There are more calls further in."""


class Coroutines:
    """The coroutines of one process."""

    def __init__(self, objects: Objects, layout: Layout) -> None:
        self._objects = objects
        self._layout = layout
        self._created = -2 if layout.version < (3, 13) else -3

    def follow(self, coroutine: int) -> Chain:
        """The calls from a task's coroutine inwards. Raises `Torn`."""
        calls: list[Call] = []
        thing = coroutine
        while True:
            thing, kind = self._unwrapped(thing)
            if kind not in CALLS:
                return Chain(tuple(calls), thing if kind else 0)
            if len(calls) >= MOST_CALLS:
                return Chain(tuple(calls), 0, is_cut=True)
            frame, state = self._frame(thing)
            if not frame or state > 0:
                # It has ended, so nothing awaits it any more.
                raise Torn
            calls.append(self._call(frame))
            if state == EXECUTING:
                return Chain(tuple(calls), 0, runs=True)
            if state == self._created:
                return Chain(tuple(calls), 0, begun=False)
            thing = self._top(frame, calls[-1].code)

    def call(self, generator: int) -> Call:
        """The call of a generator, suspended or running. Raises `Torn`."""
        frame, state = self._frame(generator)
        if not frame or state > 0:
            raise Torn
        return self._call(frame)

    def _unwrapped(self, thing: int) -> tuple[int, bytes]:
        """The object behind any wrappers, and its type. Raises `Torn`."""
        for _ in range(MOST_CALLS):
            kind = self._type(thing)
            if kind not in WRAPPERS:
                return thing, kind
            thing = self._objects.word(thing + WRAPPED_AT)
        raise Torn

    def _frame(self, coroutine: int) -> tuple[int, int]:
        """Address of the frame, and its state. Raises `Torn`."""
        layout = self._layout
        if layout.coroutine_state is None:
            raise Torn
        frame = coroutine + layout.coroutine_frame
        if layout.value_stack is not None:
            frame = self._objects.word(frame)
        at = frame if layout.value_stack is not None else coroutine
        return frame, self._objects.words("b", at + layout.coroutine_state)[0] if frame else 1

    def _call(self, frame: int) -> Call:
        layout = self._layout
        code = self._objects.word(frame + layout.code) & ~TAGS
        # In 3.10 the instruction is an index.
        (instruction,) = self._objects.words("Q" if layout.blocks is None else "i", frame + layout.instruction)
        return Call(frame, code, instruction)

    def _top(self, frame: int, code: int) -> int:
        """The top of the value stack; 0 if it is empty. Raises `Torn`."""
        layout = self._layout
        (depth,) = self._objects.words("i", frame + layout.stack_depth)
        if layout.value_stack is not None:
            bottom, least = self._objects.word(frame + layout.value_stack), 0
        else:
            bottom, least = frame + layout.local_variables, self._objects.words("i", code + layout.variables)[0]
        if not least <= depth <= MOST_DEPTH:
            raise Torn
        return self._objects.word(bottom + 8 * (depth - 1)) & ~TAGS if depth > least else 0

    def _type(self, thing: int) -> bytes:
        """The name of the type; empty for a null pointer. Raises `Torn`."""
        return self._objects.type_name(thing) if thing else b""
