"""Which processes the user tagged, so that one key can act on several."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mpmon.tui.scene import Scene

CLEANERS = frozenset({"resource tracker", "shm manager"})
"""They remove what the others leave in shared memory, and end by themselves after them."""


class Tags:
    """Processes by pid and start time: one that gets the pid of another is not tagged with it."""

    def __init__(self) -> None:
        self._keys: frozenset[tuple[int, float]] = frozenset()

    def __bool__(self) -> bool:
        return bool(self._keys)

    def pids(self, scene: Scene) -> tuple[int, ...]:
        """Those that are still there."""
        if not self._keys:
            return ()
        return tuple(p.pid for p in scene.snapshot.processes if p.key in self._keys and not p.ended)

    def turn(self, scene: Scene, pids: Iterable[int]) -> None:
        """Tags these, or untags them where all are tagged."""
        keys = {scene.processes[pid].key for pid in pids if pid in scene.processes}
        self._keys = self._keys - keys if keys <= self._keys else self._keys | keys

    def add(self, scene: Scene, pids: Iterable[int]) -> int:
        """Tags these, but for those who clean up after the others; how many were left out."""
        there = [pid for pid in pids if pid in scene.processes]
        wanted = [pid for pid in there if scene.role(pid) not in CLEANERS]
        self._keys |= {scene.processes[pid].key for pid in wanted}
        return len(there) - len(wanted)

    def clear(self) -> None:
        """Untags all."""
        self._keys = frozenset()
