"""The locks of `threading` in one process, and which of them a call holds.

A call holds a lock from the moment that it enters a `with` block until the block ends; the block's object is the lock itself, or
leads to it: the generator under `contextlib.contextmanager` that is in such a block while it is suspended, an `ExitStack` with
what it was given, or an object of a program's own whose `__exit__` releases a lock. Who calls `acquire()` by hand leaves no such
mark: then a call that names `acquire` and `release`, is in a `try` block and leads to the lock may hold it, provided that no
other thread's calls name either.

Sources: Modules/_threadmodule.c and Lib/contextlib.py of CPython 3.10 to 3.14.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from mpmon.probes.interpreter.blocks import BOUND_TO, Blocks, Owner
from mpmon.probes.interpreter.deques import items_of
from mpmon.probes.interpreter.frames import FrameInMemory
from mpmon.probes.interpreter.layouts import Layout
from mpmon.probes.interpreter.objects import Objects
from mpmon.probes.interpreter.reachable import CELL_AT

LOCKS = {b"_thread.lock": "Lock", b"_thread.RLock": "RLock", b"_thread.LockType": "Lock"}
"""Types of Modules/_threadmodule.c, and their names in the standard library."""

LOCK_AT, OWNER_AT = 16, 24
"""Fields of `lockobject` and `rlockobject`: the lock, and the ident of the owning thread."""

TAKES = "acquire"
"""The name looked up by functions that take locks by hand."""

RELEASES = "release"
"""The name looked up by functions that release locks by hand."""

BY_HAND = frozenset({TAKES, RELEASES})

GIVES_BACK = frozenset({RELEASES, "_release_save"})
"""A function with a `with` block, or one called in it, that looks up one of these may have released the lock there."""

STACKS = frozenset({b"ExitStack"})

SEMAPHORES = frozenset({b"Semaphore", b"BoundedSemaphore"})
"""Classes of Lib/threading.py."""

MOST_ENTERED = 16
"""Most blocks of one `ExitStack`."""

DEEPEST = 4
"""Most blocks inside of each other that are followed."""

FAR = 2
"""Attributes of attributes: how far away from what a function names a lock may be."""

MOST_VARIABLES = 64

CELL = b"cell"
"""The type of what a variable of nested functions is bound to."""


class Lock(msgspec.Struct):
    """One lock object."""

    address: int
    kind: str
    id: str
    locked: bool
    owner: int
    """Ident of the thread that owns an RLock, else 0."""


class Locks:
    """The locks of one process."""

    def __init__(self, objects: Objects, layout: Layout, blocks: Blocks, pid: int) -> None:
        self._objects = objects
        self._layout = layout
        self._blocks = blocks
        self._pid = pid

    def of(self, thing: int) -> Iterator[Lock]:
        """The lock that an object is, or, for a condition, has. Raises `Torn`."""
        found = self._objects.kind(thing)
        if kind := LOCKS.get(found):
            yield self._read(thing, kind)
        elif found == b"Condition":
            inner = self._objects.attribute(thing, b"_lock")
            kind = LOCKS.get(self._objects.kind(inner)) if inner else None
            if inner and kind:
                yield msgspec.structs.replace(self._read(inner, kind), kind="Condition")

    def operand(self, value: int) -> Iterator[Lock]:
        """The lock of an object on the value stack, perhaps a bound method of it. Raises `Torn`."""
        bound = self._objects.kind(value) in (b"builtin_function_or_method", b"method")
        yield from self.of(self._objects.word(value + BOUND_TO) if bound else value)

    def held_in(self, frame: FrameInMemory) -> Iterator[tuple[Lock, bool]]:
        """The locks in whose blocks a call is, and whether a block is the lock's own: a program's `__exit__` may find a lock that
        is no longer held. Raises `Torn`.
        """
        return self._of_blocks(self._blocks.kept(frame), DEEPEST)

    def has_permit_of(self, frame: FrameInMemory, semaphore: int) -> bool:
        """Whether a call is in a `with` block of a semaphore. Raises `Torn`."""
        return any(owner.object == semaphore for owner in self._blocks.kept(frame))

    def _of_blocks(self, owners: Iterable[Owner], deep: int) -> Iterator[tuple[Lock, bool]]:
        for owner in owners if deep else ():
            yield from ((lock, True) for lock in self.of(owner.object))
            if made := self._blocks.generator(owner.object):
                gives_back = not made.names.isdisjoint(GIVES_BACK)
                yield from () if gives_back else self._of_blocks(self._blocks.kept(made), deep - 1)
            elif self._objects.kind(owner.object) in STACKS:
                yield from self._of_blocks(self._entered(owner.object), deep - 1)
            else:
                yield from ((lock, False) for lock in self._released_by(owner))

    def _released_by(self, owner: Owner) -> Iterator[Lock]:
        """The lock of an object, or of one of its attributes, that its `__exit__` releases: names are in the order in which a
        function first looks them up, so that of the lock comes right before `release`. Raises `Torn`.
        """
        names = self._blocks.names_of(owner)
        place = names.index(RELEASES) if RELEASES in names and TAKES not in names else 0
        if not place:
            return
        name, before = names[place - 1].encode(), frozenset(row.encode() for row in names[: place - 1])
        for thing in (owner.object, *self._objects.attributes(owner.object, before).values()):
            yield from (
                lock for value in self._objects.attributes(thing, frozenset({name})).values() for lock in self.of(value)
            )

    def _entered(self, stack: int) -> Iterator[Owner]:
        """What an `ExitStack` has entered: pairs of a flag and a bound `__exit__`. Raises `Torn`."""
        callbacks = self._objects.attribute(stack, b"_exit_callbacks")
        for pair in items_of(self._objects, callbacks, MOST_ENTERED) if callbacks else ():
            items = self._objects.items(pair)
            if len(items) == 2 and (owner := self._blocks.exited(items[1], 0)):
                yield owner

    def may_be_taken_in(self, frame: FrameInMemory, lock: Lock) -> bool:
        """Whether a call takes and releases locks by hand, is in a `try` block, and leads to this one. Raises `Torn`."""
        names = frame.names
        if not names >= BY_HAND or not frame.in_try:
            return False
        things = (*frame.variables()[:MOST_VARIABLES], *frame.looked_up().values())
        return any(found.address == lock.address for found in self._named(map(self._unwrapped, things), names))

    def _unwrapped(self, thing: int) -> int:
        return self._objects.word(thing + CELL_AT) if self._objects.kind(thing) == CELL else thing

    def _named(self, things: Iterable[int], names: frozenset[str]) -> Iterator[Lock]:
        """The locks among these objects and their attributes with these names. Raises `Torn`."""
        wanted = frozenset(name.encode() for name in names)
        reached = dict.fromkeys(thing for thing in things if self._objects.kind(thing))
        for _ in range(FAR + 1):
            for thing in reached:
                yield from self.of(thing)
            reached = dict.fromkeys(
                value for thing in reached for value in self._objects.attributes(thing, wanted).values()
            )

    def _read(self, thing: int, kind: str) -> Lock:
        owner = self._objects.word(thing + OWNER_AT) if kind == "RLock" else 0
        pid = self._pid
        if not self._layout.lock_word:
            locked = bool(self._objects.read(thing + LOCK_AT, 1)[0] & 1)
            return Lock(thing, kind, f"lock:{pid}:{thing + LOCK_AT:#x}", locked, owner if locked else 0)
        word = self._objects.word(thing + LOCK_AT)
        (value,) = self._objects.words("I", word)
        return Lock(thing, kind, f"futex:{pid}:{word:#x}", value == 0, owner if value == 0 else 0)
