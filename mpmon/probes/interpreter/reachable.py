"""The objects that the variables of a program lead to: a bounded walk, each object once.

The walk follows the variables of frames and the items of lists, tuples and dictionaries among them; the caller decides
which attributes of other objects to follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mpmon.probes.interpreter.frames import FrameInMemory
from mpmon.probes.interpreter.objects import TAGS, Objects
from mpmon.probes.interpreter.pages import Torn

DEEPEST = 3
"""Most references from a variable to an examined object, unless more are asked for."""

CONTAINERS = frozenset({b"list", b"tuple", b"dict"})

CELL_AT = 16
"""PyCellObject.ob_ref: holds a variable that a nested function uses too."""

Visit = Callable[[int, tuple[bytes, ...]], Iterable[int]]
"""Receives an object and the names of its classes, and returns the objects to follow from there. May raise `Torn`."""


class Reachable:
    """The walk through one process, from any number of frames."""

    def __init__(self, objects: Objects, most: int, visit: Visit, *, deepest: int = DEEPEST) -> None:
        """Visits at most `most` objects, up to `deepest` references from a variable, and passes each that is not a container
        to `visit`.
        """
        self._objects = objects
        self._deepest = deepest
        self._most = most
        self._visit = visit
        self._seen: set[int] = set()

    def follow(self, frame: FrameInMemory) -> None:
        """Walk from the variables of one frame; an unreadable frame is skipped."""
        try:
            values = frame.variables()
        except Torn:
            return
        for value in values:
            self._follow(value & ~TAGS, 0)

    def skip(self, thing: int) -> None:
        """Do not visit this object: it is known already."""
        self._seen.add(thing)

    def _follow(self, thing: int, depth: int) -> None:
        if not thing or thing in self._seen or len(self._seen) >= self._most or depth > self._deepest:
            return
        self._seen.add(thing)
        try:
            bases = self._objects.bases(thing)
            if bases[0] == b"cell":
                # Its variable is like any other, so the cell does not count as a step.
                self._follow(self._objects.word(thing + CELL_AT) & ~TAGS, depth)
                return
            for part in self._objects.items(thing) if bases[0] in CONTAINERS else self._visit(thing, bases):
                self._follow(part & ~TAGS, depth + 1)
        except Torn:
            return
