"""How often items were taken from each queue, by the counts of the shim. Without the shim nobody counts, and there is none.

A count belongs to the moment of its snapshot, so a rate is over seconds in which mpmon looked, and is the more exact the
longer that is.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpmon.tui.scene import Scene

SPAN_S = 30.0
"""How far back a rate goes."""

LEAST_S = 5.0
"""Over fewer seconds one item more or less would make a difference."""


class Rates:
    """Remembers the counts of the last scenes."""

    def __init__(self) -> None:
        self._counts: deque[tuple[float, dict[str, int]]] = deque()

    def take(self, scene: Scene) -> None:
        """One more scene; an earlier one begins anew, for somebody looks back."""
        last = self._counts[-1][0] if self._counts else 0.0
        if scene.now == last:
            return
        if scene.now < last:
            self._counts.clear()
        while self._counts and scene.now - self._counts[0][0] > SPAN_S:
            self._counts.popleft()
        self._counts.append((scene.now, _gets(scene)))

    def of(self, queue: str) -> float | None:
        """Items a second; `None` while that is not known."""
        if not self._counts:
            return None
        now, counts = self._counts[-1]
        began, before = next(((at, past) for at, past in self._counts if queue in past), (now, counts))
        taken = counts.get(queue, 0) - before.get(queue, 0)
        return None if now - began < LEAST_S or queue not in counts or taken < 0 else taken / (now - began)


def _gets(scene: Scene) -> dict[str, int]:
    """Items taken from each queue so far, by those who have the shim."""
    counted: Counter[str] = Counter()
    for row in scene.snapshot.queue_records:
        counted[row.object] += row.gets
    return dict(counted)
