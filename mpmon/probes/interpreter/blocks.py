"""`with` blocks: whose body a call is in, and which one a call is about to enter.

A bound `__exit__` stays on the value stack of a call from the moment that its block is entered until the block ends. That shows
who holds a lock of `threading`, and also who holds a lock that a program makes itself, of a folder, a file or a key of a
database: others poll for it, or sleep, in `__enter__` of an object of the same class, or in the function under
`contextlib.contextmanager` that makes it, with the same name.

Sources: Lib/contextlib.py; Objects/classobject.c and Objects/funcobject.c of CPython 3.10 to 3.14.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from mpmon.model import BLOCK, LockUse
from mpmon.probes.aside import may_hang
from mpmon.probes.files import Proc
from mpmon.probes.interpreter.codes import Code, Codes
from mpmon.probes.interpreter.contents import is_standard
from mpmon.probes.interpreter.coroutines import Coroutines
from mpmon.probes.interpreter.frames import FrameInMemory, Frames, Tables
from mpmon.probes.interpreter.layouts import Layout
from mpmon.probes.interpreter.objects import BOUND_TO, CODE_AT, FUNCTION_AT, METHOD, NAME_AT, TAGS, Objects
from mpmon.probes.interpreter.pages import Torn
from mpmon.probes.interpreter.runtime import NoInterpreter, Runtime, runtime_of
from mpmon.probes.interpreter.tids import Tids
from mpmon.probes.memory import Memory

ENTERS, EXITS = "__enter__", "__exit__"

BY_GENERATOR = b"_GeneratorContextManager"
"""The type of what a function under `contextlib.contextmanager` returns; `gen` is its generator."""

PATHS = frozenset({b"PosixPath", b"PurePosixPath", b"Path"})

MOST_NAMES, LONGEST_NAME = 32, 400
"""Attributes or variables of one object that are searched for its name, and the longest name."""


class Owner(NamedTuple):
    """The object of a `with` block."""

    object: int
    exit: int
    """The function that its `__exit__` is; 0 for one written in C."""


class Blocks:
    """The objects of `with` blocks in one process."""

    def __init__(self, memory: Memory, objects: Objects, layout: Layout) -> None:
        self._memory = memory
        self._objects = objects
        self._layout = layout
        self._tables = Tables(objects)
        self._codes = Codes(layout)
        self._read: dict[int, Code] = {}

    def kept(self, frame: FrameInMemory) -> Iterator[Owner]:
        """The objects in whose blocks a call is: those whose `__exit__` is on its value stack. Raises `Torn`."""
        kept = frame.kept
        for value, above in zip(kept, (*kept[1:], 0), strict=False):
            if owner := self.exited(value, above):
                yield owner

    def held(self, frame: FrameInMemory, wanted: Collection[str]) -> Iterator[tuple[str, str]]:
        """Kind and id of those of the wanted objects in whose blocks a call is. Raises `Torn`."""
        found = (self.named(owner.object) for owner in self.kept(frame))
        return (named for named in found if named and named[1] in wanted)

    def entering(self, frames: Sequence[FrameInMemory]) -> tuple[str, str, int] | None:
        """Kind and id of the named object whose block a thread is about to enter, in code that is not the standard library's, and
        the place of the call that does it, innermost first. Raises `Torn`.
        """
        for place, frame in enumerate(frames):
            if frame.code.name == ENTERS and (
                frame.code.file.endswith("/contextlib.py") or not is_standard(frame.code.file)
            ):
                owner = frame.argument(0)
                if named := self.named(owner) if owner else None:
                    return (*named, place)
        return None

    def named(self, owner: int) -> tuple[str, str] | None:
        """What an object is, and its id: the same in all processes for objects of one class whose first string, which names what
        they lock, is the same. `None` for one without a string: which of its class locks the same is unknown. Raises `Torn`.
        """
        kind, values = self._parts(owner)
        name = next(filter(None, map(self._text, values)), "")
        return (kind, f"{BLOCK}{zlib.crc32(f'{kind} {name}'.encode(errors='replace')):08x}") if name else None

    def _parts(self, owner: int) -> tuple[str, Iterable[int]]:
        """The class of an object and its attributes; for a generator, its function and variables."""
        if frame := self.generator(owner):
            return frame.code.name, frame.variables()[:MOST_NAMES]
        named = self._objects.named_values(owner)
        return self._objects.kind(owner).decode(errors="replace"), [value for _, value in named[:MOST_NAMES]]

    def generator(self, owner: int) -> FrameInMemory | None:
        """The call of the generator under `contextlib.contextmanager` that an object was made by. Raises `Torn`."""
        made = self._objects.attribute(owner, b"gen") if self._objects.kind(owner) == BY_GENERATOR else None
        if not made:
            return None
        call = Coroutines(self._objects, self._layout).call(made)
        return FrameInMemory(self._tables, self._layout, call.frame, self._code(call.code))

    def names_of(self, owner: Owner) -> tuple[str, ...]:
        """What the `__exit__` of a program's own class looks up, in the order in which it first does; nothing for one written in
        C or of the standard library. Raises `Torn`.
        """
        code = self._code(self._objects.word(owner.exit + CODE_AT)) if owner.exit else None
        if code is None or is_standard(code.file):
            return ()
        return tuple(self._objects.text(item & ~TAGS) for item in self._objects.items(code.names_at))

    def _code(self, address: int) -> Code:
        if address not in self._read:
            self._read |= self._codes.read(self._memory, [address])
        code = self._read.get(address)
        if code is None:
            raise Torn
        return code

    def _text(self, value: int) -> str:
        """A string; of an object of `pathlib` the path, once it was used: the longest of its strings. Raises `Torn`."""
        if self._objects.kind(value) not in PATHS:
            return self._string(value)
        return max(map(self._string, self._objects.slots(value)), key=len, default="")

    def _string(self, value: int) -> str:
        return self._objects.text(value, LONGEST_NAME) if self._objects.kind(value) == b"str" else ""

    def exited(self, value: int, above: int) -> Owner | None:
        """The object whose `__exit__` a value is, bound to it or, in 3.14, below it on the value stack (LOAD_SPECIAL); `None` for
        any other value. Raises `Torn`.
        """
        kind = self._objects.kind(value)
        if kind == b"builtin_function_or_method":
            is_exit = self._method_name(value) == EXITS.encode()
            return Owner(self._objects.word(value + BOUND_TO), 0) if is_exit else None
        if kind == METHOD:
            return self._plain_exit(*self._objects.words("QQ", value + FUNCTION_AT))
        return self._plain_exit(value, above)

    def _plain_exit(self, function: int, owner: int) -> Owner | None:
        kind = self._objects.kind(function)
        if kind == b"method_descriptor" and self._objects.text(self._objects.word(function + 24)) == EXITS:
            return Owner(owner, 0)
        return Owner(owner, function) if kind == b"function" and self._function_name(function) == EXITS else None

    def _method_name(self, value: int) -> bytes:
        return self._objects.c_text(self._objects.word(self._objects.word(value + 16)))

    def _function_name(self, function: int) -> str:
        return self._objects.text(self._objects.word(function + NAME_AT))


@may_hang
def blocks_held(proc: Proc, pid: int, wanted: frozenset[str]) -> tuple[LockUse, ...]:
    """The threads of one process that are in the blocks of wanted objects.

    Raises:
        OSError: its memory cannot be read.
    """
    tids = Tids(proc, pid)
    with Memory(proc, pid) as memory:
        try:
            return tuple(_held(memory, tids, runtime_of(proc, pid, memory), wanted))
        except (NoInterpreter, Torn):
            return ()


def _held(memory: Memory, tids: Tids, runtime: Runtime, wanted: frozenset[str]) -> Iterator[LockUse]:
    objects = Objects(memory, runtime.layout)
    frames, blocks = Frames(memory, objects, runtime), Blocks(memory, objects, runtime.layout)
    for thread in frames.threads():
        # The calls of a thread that runs may be torn.
        with suppress(Torn):
            tid = tids.of(thread.native_id)
            calls = list(frames.of(thread)) if tid else []
            for depth, frame in enumerate(reversed(calls)):
                for kind, name in blocks.held(frame, wanted):
                    yield LockUse(
                        pid=tids.pid, tid=tid or 0, object=name, kind=kind, holds=True, function=frame.code.name,
                        depth=depth, exact=False,
                    )  # fmt: skip
