"""What a sleeping task, or a timer, could do once it runs: which locks, queues, events and tasks its variables lead to.

The walk follows the variables of the task's calls, the module names they look up, the contents of containers and
attributes, the functions and methods among these, and what those look up in turn, except in the standard library and
installed packages. An object of an unknown type could lead anywhere, and so could a walk that exceeds its limit: then
the result is unknown.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Collection, Iterable, Iterator

from mpmon.probes.interpreter.codes import Codes
from mpmon.probes.interpreter.contents import is_standard
from mpmon.probes.interpreter.frames import FrameInMemory
from mpmon.probes.interpreter.layouts import Layout
from mpmon.probes.interpreter.objects import (
    CLASS_DICT,
    CODE_AT,
    HEAP_TYPE,
    MOST_KEYS,
    TAGS,
    TEXT,
    TYPE,
    TYPE_FLAGS,
    Objects,
    set_items,
)
from mpmon.probes.interpreter.pages import Torn
from mpmon.probes.interpreter.reachable import CELL_AT
from mpmon.probes.memory import Memory

MOST_OBJECTS, MOST_OF_ALL = 1500, 6000
"""Most objects for one task, and for all tasks of one process."""

MOST_BOUND = 4000
"""Most names of one module."""

LEAVES = frozenset({
    b"int", b"str", b"bytes", b"float", b"bool", b"NoneType", b"ellipsis", b"complex", b"bytearray", b"range", b"slice", b"code",
    b"method_descriptor", b"wrapper_descriptor", b"getset_descriptor", b"member_descriptor",
    b"classmethod_descriptor", b"method-wrapper", b"_thread.lock", b"_thread.RLock", b"weakref", b"weakref.ReferenceType",
    b"NotImplementedType", b"memoryview", b"types.GenericAlias", b"types.UnionType",
})  # fmt: skip
"""Types of objects that lead nowhere."""

LEAVES_OF = (b"_io.", b"datetime.", b"re.", b"_socket.", b"decimal.")
"""Prefixes of the names of further such types."""

SENDS = 0
"""An address that stands for anything that sends to others; no object has it."""

SENDERS, SENDERS_END = frozenset({b"StreamWriter", b"StreamReader", b"Process"}), (b"Transport", b"Protocol")
"""Types in asyncio that send, or by reading let others send; name endings of others there."""

SENDERS_OF = (b"_io.", b"_socket.")
"""Name prefixes of such types outside asyncio."""

CONTAINERS = frozenset({b"list", b"tuple", b"dict"})
SETS = frozenset({b"set", b"frozenset"})

WRAPPERS = {
    b"staticmethod": (16,), b"classmethod": (16,), b"property": (16, 24, 32), b"method": (16, 24), b"cell": (CELL_AT,),
}  # fmt: skip
"""Types that stand for other objects, and the offsets of these (Objects/funcobject.c, descrobject.c, classobject.c)."""

BUILTIN, OWNER_AT = b"builtin_function_or_method", 24
"""A function written in C, and PyCFunctionObject.m_self: what it is a method of, or its module."""

GLOBALS_AT, MORE_AT = 16, (56, 64, 72)
"""PyFunctionObject: the names of its module, and its defaults and closure (cpython/funcobject.h)."""

BASES_AT = 336
"""PyTypeObject.tp_bases."""

QUIET = frozenset({"logging", "asyncio", "_asyncio", "threading", "re", "pathlib"})
"""Modules of the standard library whose objects do nothing unexpected, but lead to a great many others."""

LENGTH_AT = 16
"""PyVarObject.ob_size."""

NAMES_AT = 16
"""PyModuleObject.md_dict."""

EVERYTHING = frozenset({"all_tasks", "current_task", "get_objects", "eval", "exec"})
"""Functions that lead to any task, or to anything."""


class Anywhere(Exception):
    """The calls could lead to anything."""


class Reach:
    """Walks from the calls of the tasks of one process."""

    def __init__(self, memory: Memory, layout: Layout) -> None:
        self._memory = memory
        self._objects = Objects(memory, layout)
        self._codes = Codes(layout)
        self._left = MOST_OF_ALL

    def of(self, frames: Iterable[FrameInMemory], wanted: Collection[int]) -> frozenset[int] | None:
        """Those of the wanted objects that the calls lead to, and `SENDS` if they lead to anything that sends; `None`
        if unknown.
        """
        own = (frame for frame in frames if not _is_library(frame.code.file))
        # The top of its value stack is the call it awaits.
        return self._found(
            (((*frame.variables(), *frame.alive()[:-1], *frame.looked_up().values()), frame.names) for frame in own),
            wanted,
        )

    def of_call(self, address: int, wanted: Collection[int]) -> frozenset[int] | None:
        """The same of a call that is yet to be made: the arguments at the address, and the function after them."""

        def things() -> Iterator[tuple[tuple[int, ...], frozenset[str]]]:
            yield self._objects.words("QQ", address), frozenset()

        return self._found(things(), wanted)

    def _found(
        self, begins: Iterable[tuple[tuple[int, ...], frozenset[str]]], wanted: Collection[int]
    ) -> frozenset[int] | None:
        walk = _Walk(self._objects, self._memory, self._codes, wanted, min(MOST_OBJECTS, self._left))
        try:
            for things, names in begins:
                walk.follow(things, names)
        except (Torn, Anywhere):
            return None
        finally:
            self._left -= walk.used
        return frozenset(walk.found)


class _Walk:
    """A walk from the calls of one task, visiting each object once, nearest first."""

    def __init__(self, objects: Objects, memory: Memory, codes: Codes, wanted: Collection[int], most: int) -> None:
        self._objects = objects
        self._memory = memory
        self._codes = codes
        self._wanted = wanted
        self._most = most
        self._seen: set[int] = set()
        self.found: set[int] = set()

    @property
    def used(self) -> int:
        """Objects visited."""
        return len(self._seen)

    def follow(self, things: Iterable[int], names: frozenset[str]) -> None:
        """Walk from these objects, on behalf of code that looks up these names. Raises `Torn` and `Anywhere`."""
        if not EVERYTHING.isdisjoint(names):
            raise Anywhere
        queue = deque((thing, names) for thing in things)
        while queue:
            thing, names = queue.popleft()
            thing &= ~TAGS
            if not thing or thing in self._seen:
                continue
            self._seen.add(thing)
            if len(self._seen) > self._most:
                raise Anywhere
            if thing in self._wanted:
                self.found.add(thing)
            else:
                queue.extend(self._parts(thing, names))

    def _parts(self, thing: int, names: frozenset[str]) -> Iterator[tuple[int, frozenset[str]]]:
        """The objects that one leads to, with the names that are looked up in each. Raises `Torn` and `Anywhere`."""
        kind = self._objects.type_name(thing)
        if kind.startswith(SENDERS_OF):
            self.found.add(SENDS)
        if kind in LEAVES or kind.startswith(LEAVES_OF):
            return
        if kind == b"function":
            yield from self._of_function(thing)
        elif kind == b"module":
            yield from ((part, names) for part in self._bound(self._objects.word(thing + NAMES_AT), names))
        elif kind in CONTAINERS:
            if kind != b"dict" and self._objects.word(thing + LENGTH_AT) > MOST_KEYS:
                raise Anywhere
            yield from ((part, names) for part in self._objects.items(thing))
        elif kind in SETS:
            yield from ((part, names) for part in set_items(self._objects, thing))
        elif kind == BUILTIN:
            owner = self._objects.word(thing + OWNER_AT)
            if owner and self._objects.type_name(owner) != b"module":
                yield owner, names
        elif kind in WRAPPERS:
            yield from ((self._objects.word(thing + at), names) for at in WRAPPERS[kind])
        elif kind == b"type" or self._is_class(thing):
            yield from ((part, names) for part in self._of_class(thing))
        else:
            yield from ((part, names) for part in self._of_instance(thing))

    def _of_function(self, thing: int) -> Iterator[tuple[int, frozenset[str]]]:
        address = self._objects.word(thing + CODE_AT)
        code = self._codes.read(self._memory, [address]).get(address)
        if code is None:
            raise Torn
        if _is_library(code.file):
            return
        items = self._objects.items(code.names_at)
        names = frozenset(self._objects.text(item & ~TAGS) for item in items)
        if not EVERYTHING.isdisjoint(names):
            raise Anywhere
        yield from ((self._objects.word(thing + at), names) for at in MORE_AT)
        yield from ((part, names) for part in self._bound(self._objects.word(thing + GLOBALS_AT), names))

    def _bound(self, dictionary: int, names: frozenset[str]) -> tuple[int, ...]:
        wanted = {name.encode() for name in names}
        pairs = self._objects.pairs(dictionary, MOST_BOUND)
        return tuple(value for key, value in pairs if self._key(key) in wanted)

    def _key(self, key: int) -> bytes:
        return self._objects.text(key).encode() if self._objects.flags(key) & TEXT else b""

    def _of_class(self, thing: int) -> tuple[int, ...]:
        """The methods and other values of a class, and its bases; none for a class of the standard library."""
        if not self._objects.word(thing + TYPE_FLAGS) & HEAP_TYPE or self._module(thing) in sys.stdlib_module_names:
            return ()
        names, bases = self._objects.word(thing + CLASS_DICT), self._objects.word(thing + BASES_AT)
        return (*self._objects.items(names), *self._objects.items(bases))

    def _of_instance(self, thing: int) -> tuple[int, ...]:
        """The attributes of an instance, and its class because of the methods."""
        if b"types.GenericAlias" in self._objects.bases(thing):
            return ()
        if not self._objects.flags(thing) & HEAP_TYPE or any(map(_hides, self._objects.bases(thing))):
            raise Anywhere
        kind, name = self._objects.word(thing + TYPE), self._objects.type_name(thing)
        if self._module(kind) not in QUIET:
            return (*self._objects.values(thing), kind)
        if name in SENDERS or name.endswith(SENDERS_END):
            self.found.add(SENDS)
        return ()

    def _module(self, kind: int) -> str:
        """The topmost package that a class was made in. Raises `Anywhere` if the class does not say."""
        names = self._objects.word(kind + CLASS_DICT)
        module = self._objects.named(names, b"__module__")
        if module is None or not self._objects.flags(module) & TEXT or self._objects.named(names, b"__slots__"):
            raise Anywhere
        return self._objects.text(module).partition(".")[0]

    def _is_class(self, thing: int) -> bool:
        return b"type" in self._objects.bases(thing)


def _hides(base: bytes) -> bool:
    """Whether it is a C class that may hold objects where they are not searched for."""
    return base in CONTAINERS or base in SETS or (b"." in base and not base.startswith(b"_asyncio."))


def _is_library(file: str) -> bool:
    """Whether code is part of the standard library or installed; code without a file may be the user's."""
    in_text = file.startswith("<") and not file.startswith("<frozen")
    return not in_text and (is_standard(file) or "-packages/" in file)
