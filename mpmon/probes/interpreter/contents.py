"""What the variables of calls lead to, as digests that show whether anything there has changed: numbers in attributes,
sizes of containers, the data of a tensor.

A loop that makes progress leaves a trace in one of these: a counter of an object, a queue that becomes shorter, a
matrix. Plain numbers in local variables of the job's own functions are compared by the readers of frames instead. The
values themselves are not kept.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress

from mpmon.model import CLOCK, CLOCKS, variable_number
from mpmon.probes.interpreter.frames import FrameInMemory
from mpmon.probes.interpreter.objects import HEAP_TYPE, TAGS, TYPE, TYPE_FLAGS, Objects
from mpmon.probes.interpreter.pages import Torn
from mpmon.probes.interpreter.things import ATTEMPTS, LOOKS, PARTS, POSITION_AT, VALUES, Hidden, array, repeats, tensor

NOT_KNOWN = -1
"""Instead of a digest: something there may change invisibly."""

UNBOUND = 1
"""Instead of a digest: the variable is bound to nothing, as one of a loop that has had no turn yet."""

NO_VARIABLE = -1
"""Stands for all variables of a call together."""

MOST_OBJECTS, MOST_OF_VARIABLE = 2000, 100
"""Most objects examined per reading of a thread, and per variable."""

MOST_SUMS = 24
"""Most sums of whole numbers kept of one variable, by name."""

LARGEST_COUNT = 1 << 40
"""No count of attempts gets as far; larger numbers are values like any other."""

DEEPEST = 7
"""Most references from a variable to an examined object: enough from a model to a weight of its second layer."""

NEAR = 1
"""Most references from a variable at which an iterator without a position, a class, or a native object counts."""

NATIVE = b"pybind11_type"
"""The metaclass of classes made by pybind11 (pybind11/detail/class.h)."""

CONDITION = b"Condition"
"""The class that events, semaphores, barriers and queues of Lib/threading.py and Lib/queue.py use to wait."""

PLAIN = (b"object",)
"""The bases of a class that inherits from no other one."""

NUMBERS = frozenset({b"int", b"bool", b"float"})


class Contents:
    """One reading of one thread."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._left = MOST_OBJECTS
        self._known: dict[int, int | None] = {}
        """Digests of objects bound to variables, since calls pass the same objects on."""
        self._counted: dict[int, tuple[int, dict[str, int]]] = {}
        """For those that lead to whole numbers: a digest of the rest, and the sums of these numbers."""
        self.counts: list[tuple[int, int, int, dict[str, int]]] = []
        """See `Stack.counts`."""

    def of(self, frames: Sequence[FrameInMemory]) -> Iterator[tuple[int, int, int]]:
        """Position of the call, number of the variable, and digest of what it leads to; see `Stack.contents`.

        `frames` come outermost first; those of the parent, in a process that was forked, lead to nothing that changes.
        """
        begun = max((place for place, frame in enumerate(frames) if frame.begins_process), default=0)
        for place, frame in enumerate(frames[begun:], begun):
            if not is_standard(frame.code.file):
                for number, value, digest in self._of_call(frame):
                    if digest:
                        yield place, number, digest
                    if value in self._counted:
                        self.counts.append((place, number, *self._counted[value]))

    def _of_call(self, frame: FrameInMemory) -> Iterator[tuple[int, int, int | None]]:
        """Number of each variable, the object that it is bound to, and the digest."""
        if self._left <= 0:
            yield NO_VARIABLE, 0, NOT_KNOWN
        if _has_clock(frame):
            yield CLOCK, 0, NOT_KNOWN
        if frame.code.name == "<module>":
            # A module has many names, and they are rarely rebound.
            yield from self._of_module(frame, ())
            return
        names = (*frame.code.locals, *frame.code.captured)
        for number in range(len(_read(frame.variables))):
            known = variable_number(names[number]) if number < len(names) else number
            yield known, *self._of_variable(frame, number)
        if _is_own(frame):
            yield from self._of_module(frame, names)

    def _of_module(self, frame: FrameInMemory, but: Collection[str]) -> Iterator[tuple[int, int, int | None]]:
        """The same for the module's names that the call looks up; those of attributes may be names of its variables as well."""
        with suppress(Torn):
            found = frame.looked_up()
            yield from (
                (variable_number(name), value, self._of(value)) for name, value in found.items() if name not in but
            )

    def _of_variable(self, frame: FrameInMemory, number: int) -> tuple[int, int | None]:
        """A variable that is rebound while it is read is read again; `None` if that keeps happening, or if nothing can
        be seen.
        """
        for _ in range(ATTEMPTS):
            value = self._bound_to(frame, number)
            if value is None:
                return 0, None
            if not value:
                return 0, UNBOUND
            if _is_own(frame) and self._is_number(value):
                return 0, None
            digest = self._of(value)
            if self._bound_to(frame, number) == value:
                self._known[value] = digest
                return value, digest
        return 0, None

    def _bound_to(self, frame: FrameInMemory, number: int) -> int | None:
        """The object's address, 0 where there is none; `None` if it cannot be read."""
        self._objects.forget_pages()
        values = _read(frame.variables)
        return values[number] if number < len(values) else None

    def _is_number(self, value: int) -> bool:
        try:
            return self._objects.type_name(value) in NUMBERS
        except Torn:
            return False

    def _of(self, value: int) -> int | None:
        if value in self._known:
            return self._known[value]
        walk = _Walk(self._objects, min(MOST_OF_VARIABLE, self._left))
        walk.follow(value)
        self._left -= walk.used
        if walk.sums and not walk.is_hidden:
            self._counted[value] = walk.digest_of_rest, walk.sums
        return NOT_KNOWN if walk.is_hidden else walk.digest


class _Walk:
    """A walk from one variable, visiting each object once."""

    def __init__(self, objects: Objects, most: int) -> None:
        self._objects = objects
        self._most = most
        self._seen: set[int] = set()
        self.used = 0
        self.digest = self.digest_of_rest = 0
        self.sums: dict[str, int] = {}
        """Of the whole numbers, by the attribute that leads to them: each is multiplied by its place among all of them, so that
        one that grows does not hide another that shrinks as much.
        """
        self._numbers = 0
        self.is_hidden = False

    def follow(self, variable: int) -> None:
        """Note the visible state of an object and of the objects it leads to, nearest first."""
        queue = deque([(b"", variable, 0)])
        while queue and self.used < self._most:
            name, thing, depth = queue.popleft()
            thing &= ~TAGS
            if not thing or thing in self._seen:
                continue
            self.used += 1
            with suppress(Torn):
                parts = self._look(name, thing, depth)
                queue.extend((own or name, part, depth + 1) for own, part in parts if depth < DEEPEST)

    def _look(self, name: bytes, thing: int, depth: int) -> Sequence[tuple[bytes, int]]:
        kind = self._objects.type_name(thing)
        if kind == b"int":
            self._note_number(name, thing)
            return ()
        if look := VALUES.get(kind):
            self._note(look(self._objects, thing))
            return ()
        self._seen.add(thing)
        return self._parts(thing, kind, depth) if kind != b"type" or depth <= NEAR else ()

    def _note(self, text: bytes) -> None:
        self.digest = zlib.crc32(text, self.digest)
        self.digest_of_rest = zlib.crc32(text, self.digest_of_rest)

    def _note_number(self, name: bytes, thing: int) -> None:
        try:
            number = self._objects.integer(thing)
        except Torn:
            number = LARGEST_COUNT
        if abs(number) >= LARGEST_COUNT:
            self._note(VALUES[b"int"](self._objects, thing))
            return
        self.digest = zlib.crc32(b"%d" % number, self.digest)
        self._numbers += 1
        attribute = f".{name.decode(errors='replace')}" if name else ""
        if attribute not in self.sums and len(self.sums) >= MOST_SUMS:
            attribute = ""
        self.sums[attribute] = self.sums.get(attribute, 0) + self._numbers * number

    def _parts(self, thing: int, kind: bytes, depth: int) -> Sequence[tuple[bytes, int]]:
        """Note the visible state of one object, and return the objects it leads to, with their names if they have any."""
        if at := POSITION_AT.get(kind):
            self._note(self._objects.read(thing + at, 8))
            return ()
        bases = self._objects.bases(thing)
        if any(base.endswith(b"TensorBase") for base in bases):
            self._note_tensor(thing)
            return ()
        if b"numpy.ndarray" in bases:
            self._note(array(self._objects, thing))
            return ()
        if depth <= NEAR and self._is_native(thing):
            self.is_hidden = True
            return ()
        if CONDITION in bases and (waiters := self._objects.attribute(thing, b"_waiters")):
            # Repeated waits of other threads in it are no change: an event is either set or not.
            self._seen.add(waiters)
        known = next((base for base in bases if base in PARTS or base in LOOKS), b"")
        if look := LOOKS.get(known):
            self._note(look(self._objects, thing))
        parts = [(b"", part) for part in PARTS[known](self._objects, thing)] if known in PARTS else []
        if self._has_attributes(thing, kind):
            if bases[1:] == PLAIN:
                # Without attributes it has no state at all, which is more than that nothing of it was seen.
                self._note(kind)
            return (*parts, *self._objects.named_values(thing), *((b"", slot) for slot in self._objects.slots(thing)))
        self.is_hidden |= depth <= NEAR and not known and self._hides(thing, kind)
        return parts

    def _note_tensor(self, thing: int) -> None:
        try:
            self._note(tensor(self._objects, thing))
        except Hidden:
            self.is_hidden = True

    def _is_native(self, thing: int) -> bool:
        """Whether it is an object of a C++ library wrapped by pybind11."""
        return self._objects.type_name(self._objects.word(thing + TYPE)) == NATIVE

    def _has_attributes(self, thing: int, kind: bytes) -> bool:
        """Whether its class was made by a `class` statement, so that the words after its head are objects. Classes made in C
        name their module too (`tp_name`), and what those count, such as the cursors of a database, is their own affair.
        """
        flags = self._objects.word(self._objects.word(thing + TYPE) + TYPE_FLAGS)
        return bool(flags & HEAP_TYPE) and b"." not in kind

    def _hides(self, thing: int, kind: bytes) -> bool:
        """Whether it is an iterator with an unreadable position; the position of a file shows in the bytes read."""
        hides = not kind.startswith(b"_io.") and self._objects.is_iterator(thing)
        return hides and not repeats(self._objects, thing, kind)


def is_standard(file: str) -> bool:
    """Whether a file is part of the standard library, or no file, except the text of `python -c`."""
    return (file.startswith("<") and file != "<string>") or ("/lib/python" in file and "-packages/" not in file)


def _is_own(frame: FrameInMemory) -> bool:
    """Whether a call belongs to the job's own code: readers of frames compare its plain numbers."""
    return "-packages/" not in frame.code.file


def _has_clock(frame: FrameInMemory) -> bool:
    try:
        names = frame.names
    except Torn:
        return False
    # Code that sleeps names the module `time`.
    return not names.isdisjoint(CLOCKS - {"time"}) or ("time" in names and "sleep" not in names)


def _read(values: Callable[[], tuple[int, ...]]) -> tuple[int, ...]:
    try:
        return values()
    except Torn:
        return ()
