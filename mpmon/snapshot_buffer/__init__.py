"""Past observations, so that a view can look back: all recent ones, progressively fewer older ones.

Only the latest one is kept as it is.  The others become bytes (`pictures`), and are rebuilt when they are viewed: so their
size is known to the byte, and memory is not fragmented between rows that stay and rows that go. Observations around a change
of the verdict are dropped last.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    # The first frame of the screen needs no diagnosis and should not wait for its import.
    from mpmon.diagnosis.findings import Observation
    from mpmon.snapshot_buffer.pictures import Packer, Picture

KEPT_BYTES = 16 << 20
"""Limit for a live job: enough for a full hour of 64 processes of which a few work, and progressively less of earlier days."""

TOGETHER = 16
"""Observations that are packed at once: one by one, each would take several times as long, with cold caches."""


class SnapshotBuffer:
    """Observations in the order they were made. One thread adds to it, any thread may read."""

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        """With `most_bytes` 0 only the newest is kept."""
        self._most_bytes = most_bytes
        self._packer: Packer | None = None
        """Made for the first one."""
        self._kept: list[Picture] = []
        """Only appended to, or replaced as a whole, so that readers need no lock."""
        self.bytes = 0
        """Size of the packed ones, in bytes."""

    def add(self, observation: Observation) -> None:
        """Add an observation, whose number is above all others."""
        from mpmon.snapshot_buffer.pictures import Packer

        packer = self._packer = self._packer or Packer()
        picture = packer.picture(observation)
        if not self._most_bytes:
            self._kept = [picture]
            return
        self._kept.append(picture)
        if picture.place % TOGETHER == 0:
            self._pack(packer)

    def _pack(self, packer: Packer) -> None:
        """Pack all but the newest; drop some if they exceed the limit."""
        self.bytes += packer.pack(self._kept[-1 - TOGETHER : -1])
        while self.bytes > self._most_bytes and len(self._kept) > 1:
            self._kept = _thinned(self._kept)
            self.bytes = _bytes(self._kept)

    @property
    def newest(self) -> Observation | None:
        """The last one that was added."""
        kept = self._kept
        return self._at(kept, len(kept) - 1)

    def before(self, number: int) -> Observation | None:
        """The last kept one with a lower number."""
        kept = self._kept
        return self._at(kept, bisect_left(kept, number, key=_number) - 1)

    def after(self, number: int) -> Observation | None:
        """The first kept one with a higher number."""
        kept = self._kept
        return self._at(kept, bisect_right(kept, number, key=_number))

    def at(self, moment: float) -> Observation | None:
        """The first kept one of this moment or later."""
        kept = self._kept
        return self._at(kept, bisect_left(kept, moment, key=_taken_at))

    def moment(self, number: int) -> float | None:
        """When the last kept one up to this number was taken, seconds since the epoch."""
        kept = self._kept
        place = bisect_right(kept, number, key=_number) - 1
        return kept[place].taken_at if place >= 0 else None

    def hang(self) -> Observation | None:
        """The one in which the latest hang began; `None` if none of the kept ones hangs.

        A hang that began before all kept ones appears only from where it was found.
        """
        kept = self._kept
        last = next((place for place in reversed(range(len(kept))) if _hangs(kept[place])), None)
        if last is None:
            return None
        since = kept[last].since
        if since is not None and since >= _taken_at(kept[0]):
            return self._at(kept, bisect_left(kept, since, key=_taken_at))
        return self._at(kept, next((place + 1 for place in reversed(range(last)) if not _hangs(kept[place])), 0))

    def _at(self, kept: list[Picture], place: int) -> Observation | None:
        packer = self._packer
        return packer.observation(kept[place]) if packer and 0 <= place < len(kept) else None


def _hangs(picture: Picture) -> bool:
    return picture.verdict.value == "hung"


def _number(picture: Picture) -> int:
    return picture.number


def _taken_at(picture: Picture) -> float:
    return picture.taken_at


def _bytes(kept: list[Picture]) -> int:
    """Their size in bytes, counting shared parts once."""
    shared = {id(part): part.size for picture in kept for part in picture.parts}
    return sum(picture.size for picture in kept) + sum(shared.values())


def _thinned(kept: list[Picture]) -> list[Picture]:
    """Drops every second one of the older half, or some of the oldest if each of them shows a change."""
    half = len(kept) // 2
    fewer = [
        row for place, row in enumerate(kept) if place >= half or not _ends_branch(kept, place) or _turns(kept, place)
    ]
    return fewer if len(fewer) < len(kept) else kept[1 + half // 8 :]


def _ends_branch(kept: list[Picture], place: int) -> bool:
    """Neither of its neighbours is rebuilt from it."""
    before = kept[place - 1].level if place else math.inf
    return before > kept[place].level < kept[place + 1].level


def _turns(kept: list[Picture], place: int) -> bool:
    """Whether the verdict differs from that of the one before or after it."""
    around = kept[max(0, place - 1) : place + 2]
    return len({row.verdict for row in around}) > 1
