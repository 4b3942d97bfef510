"""Children that a program still has objects for: the `Process` and `Popen` objects reachable from its frames.

The kernel forgets a child once its parent has reaped it; the child's object keeps pid and exit status as long as it is
referenced (Lib/multiprocessing/process.py, popen_fork.py, Lib/subprocess.py). The search covers the variables of
frames, the items of lists, tuples and dictionaries among them, the attributes in which pools, executors, DataLoaders
and torch's spawn keep their processes, the attributes of what the variables are bound to, and multiprocessing's own set of
the children that were not reaped.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import islice

from mpmon.model import KnownChild
from mpmon.probes.interpreter.frames import FrameInMemory
from mpmon.probes.interpreter.modules import names_of_all
from mpmon.probes.interpreter.objects import TAGS, Objects, set_items
from mpmon.probes.interpreter.pages import Torn
from mpmon.probes.interpreter.reachable import Reachable
from mpmon.probes.interpreter.runtime import Runtime

KEEPERS = frozenset({
    b"_pool", b"_processes", b"_workers", b"processes", b"procs", b"workers", b"children",
    b"_pcontext", b"subprocess_handlers", b"proc",
})  # fmt: skip
"""Attributes that hold processes: Pool, ProcessPoolExecutor, DataLoader, ProcessContext, and common user names; and those of
torch's elastic agent (distributed/elastic/agent/server/local_elastic_agent.py, elastic/multiprocessing/api.py).
"""

DEEPEST = 4
"""Most references from a variable to a child: the elastic agent, its context, the handlers by rank, one of them."""

STARTED = (b"multiprocessing.process", b"multiprocess.process", b"billiard.process")
"""Modules with a set `_children`: of multiprocessing and its copies."""

MOST_NAMES = 1000
"""Most names of such a module."""

MOST_OBJECTS = 3000
"""Most objects examined per process."""

MOST_NEAR = 300
"""Most attributes of variables looked at, whatever their names: an object that has a child as `self.camera` has few."""


class Children:
    """Searches the frames of one process."""

    def __init__(self, objects: Objects, pid: int) -> None:
        self._objects = objects
        self._pid = pid
        self._kept = Reachable(objects, MOST_OBJECTS, self._visit, deepest=DEEPEST)
        self._near: set[int] = set()
        self._found: dict[int, KnownChild] = {}

    @property
    def found(self) -> tuple[KnownChild, ...]:
        """The children found by all searches so far."""
        return tuple(self._found.values())

    def search(self, frames: Iterable[FrameInMemory]) -> None:
        """Follow the variables of one thread's frames, innermost first."""
        for frame in frames:
            if frame.begins_process:
                break
            self._kept.follow(frame)
            self._look_near(frame)

    def search_started(self, runtime: Runtime) -> None:
        """Look through the children that multiprocessing has started. Raises `Torn`."""
        for names in names_of_all(self._objects, runtime, STARTED):
            started = self._objects.named(names, b"_children", MOST_NAMES)
            for thing in islice(set_items(self._objects, started), MOST_OBJECTS) if started else ():
                self._note_process(thing)

    def _visit(self, thing: int, bases: tuple[bytes, ...]) -> Iterable[int]:
        """Note a child; of any other object, return the attributes that usually hold one. Raises `Torn`."""
        return () if self._is_child(thing, bases) else self._objects.attributes(thing, KEEPERS).values()

    def _look_near(self, frame: FrameInMemory) -> None:
        """Note the children among the attributes of what the variables of a frame are bound to."""
        with suppress(Torn):
            for variable in frame.variables():
                thing = variable & ~TAGS
                if thing and thing not in self._near and len(self._near) < MOST_NEAR:
                    self._near.add(thing)
                    self._look_at_attributes(thing)

    def _look_at_attributes(self, thing: int) -> None:
        with suppress(Torn):
            for value in self._objects.values(thing):
                part = value & ~TAGS
                if part and part not in self._near and len(self._near) < MOST_NEAR:
                    self._near.add(part)
                    self._is_child(part, self._objects.bases(part))

    def _is_child(self, thing: int, bases: tuple[bytes, ...]) -> bool:
        """Note it if it is one. Raises `Torn`."""
        if b"BaseProcess" in bases:
            self._note_process(thing)
        elif b"Popen" in bases:
            self._note(thing, "")
        else:
            return False
        return True

    def _note_process(self, thing: int) -> None:
        known = self._objects.attributes(thing, frozenset((b"_popen", b"_name")))
        if known.get(b"_popen"):
            name = known.get(b"_name")
            self._note(known[b"_popen"], self._objects.text(name) if name else "")

    def _note(self, popen: int, name: str) -> None:
        known = self._objects.attributes(popen, frozenset((b"pid", b"returncode")))
        pid, code = (self._objects.plain_integer(known.get(field)) for field in (b"pid", b"returncode"))
        if pid is not None and pid > 0:
            self._found[pid] = KnownChild(pid=self._pid, child=pid, returncode=code, name=name)
