"""A recording, or several of one job, one from each of its machines, as one stream of snapshots.

Several recordings are read twice: how their times align is known only when all have been read to the end.  The first
reading keeps the times of all rounds and the last round of each recording.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mpmon.errors import UsageError
from mpmon.model import Snapshot
from mpmon.nodes import rounds
from mpmon.nodes.join import Unjoinable
from mpmon.session.recording import count_rounds, read_recording


class Recordings:
    """The recordings that `mpmon --replay` plays."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """
        Raises:
            UsageError: as `read_recording`; of several, also that one is damaged, is empty, or is a pipe.
        """
        self._paths = paths
        self._snapshots = read_recording(paths[0]) if len(paths) == 1 else self._joined()
        self._count: int | None = None

    @property
    def title(self) -> str:
        """Title for the first line."""
        first = self._paths[0].name
        return f"recording {first}" if len(self._paths) == 1 else f"recordings {first} and {len(self._paths) - 1} more"

    def __iter__(self) -> Iterator[Snapshot]:
        """The snapshots; can be iterated only once."""
        return self._snapshots

    def count(self) -> int:
        """How many snapshots there are.

        Raises:
            UsageError: as `count_rounds`.
        """
        return count_rounds(self._paths[0]) if self._count is None else self._count

    def _joined(self) -> Iterator[Snapshot]:
        timings = [_timing(path) for path in self._paths]
        places = rounds.places(timings)
        self._count = rounds.count(timings, places)
        if not self._count:
            raise self._not_of_one_job("they have no rounds in common")
        streams = [
            (row.host, place, read_recording(path))
            for path, row, place in zip(self._paths, timings, places, strict=True)
        ]
        return self._checked(rounds.joined(streams))

    def _checked(self, snapshots: Iterable[Snapshot]) -> Iterator[Snapshot]:
        try:
            yield from snapshots
        except Unjoinable as problem:
            raise self._not_of_one_job(str(problem)) from problem

    def _not_of_one_job(self, why: str) -> UsageError:
        names = ", ".join(str(path) for path in self._paths)
        return UsageError(f"{names} cannot be joined: {why}.", "Give one recording of each machine, all of one job.")


def _timing(path: Path) -> rounds.Timing:
    """
    Raises:
        UsageError: as `read_recording`, or the recording is empty.
    """
    moments: list[float] = []
    last: deque[Snapshot] = deque(maxlen=1)
    for snapshot in read_recording(path, again=True):
        moments.append(snapshot.taken_at)
        last.append(snapshot)
    if not last:
        raise UsageError(f"{path} has no whole round.", "Record again.")
    return rounds.Timing(host=last[0].host, moments=tuple(moments), last=last[0])
