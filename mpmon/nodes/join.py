"""Stands where the joining of machines comes, with its signature: of several machines the first one that answers is shown."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mpmon.model import Snapshot


class Unjoinable(ValueError):
    """Parts that contradict themselves or one another; the message says how."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What one machine says of its part of the job in one round."""

    host: str
    offset_s: float = 0.0
    """How far its clock is ahead, seconds."""
    snapshot: Snapshot | None = None
    """`None` for one that belongs to the job and does not answer."""
    problem: str | None = None
    """Why it does not."""


class Joiner:
    """Joins round after round."""

    def join(self, parts: Sequence[Part]) -> Snapshot:
        """The next round.

        Raises:
            Unjoinable: no part has a snapshot.
        """
        for part in parts:
            if part.snapshot is not None:
                return part.snapshot
        raise Unjoinable("no machine says anything")
