"""Names of threads: `threading._active` maps pthread ids to all running `Thread` objects (Lib/threading.py)."""

from __future__ import annotations

from collections.abc import Collection

from mpmon.probes.interpreter.modules import names_of
from mpmon.probes.interpreter.objects import Objects
from mpmon.probes.interpreter.pages import Torn
from mpmon.probes.interpreter.runtime import Runtime

MOST_THREADS = 5000


class ThreadNames:
    """The names of one process's threads; `threading._active` is searched for only once."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._active = 0

    def read(self, objects: Objects, idents: Collection[int]) -> dict[int, str]:
        """Names by pthread id, for those of these threads that have one."""
        try:
            named = self._named(objects, idents)
            if not named:
                self._active = names_of(objects, self._runtime, b"threading") or 0
                self._active = (self._active and objects.named(self._active, b"_active")) or 0
                named = self._named(objects, idents)
        except Torn:
            self._active = 0
            return {}
        return {ident: text for ident, thread in named.items() if (text := _name(objects, thread)) is not None}

    def _named(self, objects: Objects, idents: Collection[int]) -> dict[int, int]:
        """`Thread` objects by pthread id. Raises `Torn`."""
        if not self._active or objects.type_name(self._active) != b"dict":
            return {}
        pairs = ((objects.plain_integer(key), thread) for key, thread in objects.pairs(self._active, MOST_THREADS))
        return {ident: thread for ident, thread in pairs if ident is not None and ident in idents}


def _name(objects: Objects, thread: int) -> str | None:
    try:
        name = objects.attribute(thread, b"_name")
        return objects.text(name) if name else None
    except Torn:
        return None
