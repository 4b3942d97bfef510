"""Children a program still remembers: the `Process` and `Popen` objects its frames lead to.

The kernel forgets a child when its parent has collected it; the object that stands for it keeps pid and exit status as
long as somebody refers to it (Lib/multiprocessing/process.py, popen_fork.py, Lib/subprocess.py).  Looked at are variables of
the frames, what lists, tuples and dictionaries among them hold, and the attributes in which pools, executors, DataLoaders
and torch's spawn keep theirs.
"""

from __future__ import annotations

from collections.abc import Iterable

from mpmon.model import Remembered
from mpmon.probes.interpreter.frames import FrameInMemory
from mpmon.probes.interpreter.objects import TAGS, Objects, Torn

KEEPERS = frozenset({b"_pool", b"_processes", b"_workers", b"processes", b"procs", b"workers", b"children"})
"""Attributes that hold processes: Pool, ProcessPoolExecutor, DataLoader, ProcessContext, and what people call theirs."""

CONTAINERS = frozenset({b"list", b"tuple", b"dict"})

CELL_AT = 16
"""PyCellObject.ob_ref: where a variable lies that a nested function uses too."""

MOST_OBJECTS = 3000
"""Objects of one process that are looked at."""

DEEPEST = 3
"""From a variable over an attribute and a container to the process."""


class Children:
    """Searches the frames of one process."""

    def __init__(self, objects: Objects, pid: int) -> None:
        self._objects = objects
        self._pid = pid
        self._seen: set[int] = set()
        self._found: dict[int, Remembered] = {}

    @property
    def found(self) -> tuple[Remembered, ...]:
        """The children all searches so far have led to."""
        return tuple(self._found.values())

    def search(self, frames: Iterable[FrameInMemory]) -> None:
        """Follow the variables of one thread's frames, innermost first."""
        for frame in frames:
            if frame.code.name == "_bootstrap" and frame.code.file.endswith("multiprocessing/process.py"):
                # What lies further out was copied from the parent by a fork.
                break
            try:
                values = frame.variables()
            except Torn:
                continue
            for value in values:
                self._follow(value & ~TAGS, 0)

    def _follow(self, thing: int, depth: int) -> None:
        if not thing or thing in self._seen or len(self._seen) >= MOST_OBJECTS or depth > DEEPEST:
            return
        self._seen.add(thing)
        try:
            bases = self._objects.bases(thing)
            if bases[0] == b"cell":
                self._follow(self._objects.word(thing + CELL_AT) & ~TAGS, depth)
            elif bases[0] in CONTAINERS:
                for item in self._objects.items(thing):
                    self._follow(item & ~TAGS, depth + 1)
            elif b"BaseProcess" in bases:
                self._note_process(thing)
            elif b"Popen" in bases:
                self._note(thing, "")
            else:
                for kept in self._objects.attributes(thing, KEEPERS).values():
                    self._follow(kept & ~TAGS, depth + 1)
        except Torn:
            return

    def _note_process(self, thing: int) -> None:
        known = self._objects.attributes(thing, frozenset((b"_popen", b"_name")))
        if known.get(b"_popen"):
            name = known.get(b"_name")
            self._note(known[b"_popen"], self._objects.text(name) if name else "")

    def _note(self, popen: int, name: str) -> None:
        known = self._objects.attributes(popen, frozenset((b"pid", b"returncode")))
        pid, code = (self._integer(known.get(field)) for field in (b"pid", b"returncode"))
        if pid is not None and pid > 0:
            self._found[pid] = Remembered(pid=self._pid, child=pid, returncode=code, name=name)

    def _integer(self, thing: int | None) -> int | None:
        return self._objects.integer(thing) if thing and self._objects.type_name(thing) == b"int" else None
