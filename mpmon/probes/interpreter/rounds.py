"""What shows whether a thread's loops get somewhere: the positions of its iterators, what its variables lead to, whether it goes
round at this moment, and the text that it matches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import pairwise

from mpmon.probes.interpreter.contents import Contents
from mpmon.probes.interpreter.frames import FrameInMemory
from mpmon.probes.interpreter.inside import Inside
from mpmon.probes.interpreter.matching import matched_in
from mpmon.probes.interpreter.pages import Torn
from mpmon.probes.interpreter.things import CALLERS, POSITION_AT, repeats

NO_POSITION = -1
"""Of an iterator whose position is unknown."""

RANGE_OF_VALUES, STEP_AT = (3, 12), 24
"""From this version on, the iterator of a range keeps its next value instead of an index; and where its step is."""

STEPS, MOST_STEPS = 64, 1 << 20
"""Number of times the current instruction of a call is read, and an upper limit of the instructions of any code."""

DEEP = 16
"""Innermost calls whose instruction is read repeatedly: a deep recursion must not make a look long."""


class Rounds:
    """The loops that threads of a process are in."""

    def __init__(self, inside: Inside) -> None:
        self._inside = inside
        self._objects = inside.objects
        self.counts: dict[int, tuple[tuple[int, int, int, dict[str, int]], ...]] = {}
        """`Stack.counts` by thread, once its contents were read."""

    def turns(self, tids: Collection[int]) -> dict[int, tuple[tuple[int, ...], ...]]:
        """Address, position and call depth of the iterators on the value stacks of these threads; see `Stack.turns`."""
        stacks = self._inside.stacks
        return {tid: tuple(dict.fromkeys(self._positions(stacks[tid]))) for tid in tids if stacks.get(tid)}

    def contents(self, tids: Collection[int]) -> dict[int, tuple[tuple[int, int, int], ...]]:
        """What the variables of these threads lead to; see `Stack.contents`. Fills `counts`."""
        found: dict[int, tuple[tuple[int, int, int], ...]] = {}
        for tid in tids:
            if frames := self._inside.stacks.get(tid):
                contents = Contents(self._objects)
                found[tid] = tuple(contents.of(frames[::-1]))
                self.counts[tid] = tuple(contents.counts)
        return found

    def turning(self, tids: Collection[int]) -> dict[int, tuple[int, ...]]:
        """Which calls of these threads are going round a loop at this moment; see `Stack.turning`."""
        stacks = self._inside.stacks
        return {tid: tuple(self._turning(stacks[tid][::-1])) for tid in tids if stacks.get(tid)}

    def matching(self, tids: Collection[int]) -> dict[int, int]:
        """The length of the text that these threads match with a regular expression; see `Stack.matching`."""
        found: dict[int, int] = {}
        for tid in tids:
            with suppress(Torn):
                frames = self._inside.stacks.get(tid)
                length = matched_in(self._objects, frames[0]) if frames else None
                found |= {} if length is None else {tid: length}
        return found

    def _turning(self, frames: list[FrameInMemory]) -> Iterator[int]:
        for place, frame in list(enumerate(frames))[-DEEP:]:
            with suppress(Torn):
                steps = [self._step_now(frame) for _ in range(STEPS)]
                # Inner calls may have returned, and anything may lie in their place.
                is_there = all(0 <= step < MOST_STEPS for step in steps)
                if is_there and (any(b < a for a, b in pairwise(steps)) or frame.jumps_back()):
                    yield place

    def _step_now(self, frame: FrameInMemory) -> int:
        self._objects.forget_pages()
        return frame.step()

    def _positions(self, frames: list[FrameInMemory]) -> Iterator[tuple[int, ...]]:
        for place, frame in enumerate(reversed(frames)):
            try:
                for value in frame.slots:
                    kind = self._objects.kind(value)
                    if at := POSITION_AT.get(kind):
                        yield value, self._position(value, kind, at), place
                    elif kind and kind not in CALLERS and self._goes_on(value, kind):
                        yield value, NO_POSITION, place
            except Torn:
                continue

    def _position(self, iterator: int, kind: bytes, at: int) -> int:
        """Raises: Torn."""
        (position,) = self._objects.words("q", iterator + at)
        if kind == b"range_iterator" and self._inside.layout.version >= RANGE_OF_VALUES:
            # The next value, which falls with a negative step: Objects/rangeobject.c.
            (step,) = self._objects.words("q", iterator + STEP_AT)
            return position if step > 0 else NO_POSITION
        return position

    def _goes_on(self, value: int, kind: bytes) -> bool:
        """Whether it is an iterator that may yet give something new."""
        try:
            return self._objects.is_iterator(value) and not repeats(self._objects, value, kind)
        except Torn:
            return False
