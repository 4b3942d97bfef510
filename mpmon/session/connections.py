"""TCP connections that standing processes wait on, read again while the processes stand still.

The rows of a process that has not run are kept, because they cannot change; but the kernel goes on resending what a
link loses, and only its counters show that.  Also, a thread that transfers the bytes of a process group wakes briefly:
a look at such a moment would miss what it waits on, so the connections it was seen to wait on before are still read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from mpmon.model import KernelObject
from mpmon.probes.files import Proc
from mpmon.session.look import Look

EVERY_S = 3.0
"""Seconds between two readings: one query to the kernel, or one reading of two files, for each network of the job."""

NEARLY = 0.9
"""Share of `EVERY_S` that is enough: the round in which it ends may come a little early."""

MOST = 1024
"""Most connections of a process that are remembered."""


class Connections:
    """The known connections, and when they were last read."""

    def __init__(self, proc: Proc, looks: Mapping[int, Look]) -> None:
        """`looks` has the last look at each process, and is updated by its owner."""
        self._proc = proc
        self._looks = looks
        self._seen: dict[int, tuple[Look, dict[str, KernelObject]]] = {}
        """By pid, the look that was noted last, and the connections by id."""
        self._at = float("-inf")

    def refresh(self, awake: Collection[int], now: float) -> bool:
        """Read the connections of standing processes again; whether any row changed."""
        for pid in self._seen.keys() - self._looks.keys():
            del self._seen[pid]
        is_due = now - self._at >= EVERY_S * NEARLY
        asked = [
            look for pid, look in self._looks.items()
            if self._note(look) and pid not in awake and (is_due or self._unseen(look))
        ]  # fmt: skip
        if not asked:
            return False
        self._at = now if is_due else self._at
        # Imported when first needed: most jobs wait for no connection.
        from mpmon.probes.sockets import SocketTable

        table = SocketTable(self._proc, now)
        changed = [self._describe(look, table.describe) for look in asked]
        return any(changed)

    def _note(self, look: Look) -> bool:
        """Whether the process waits, or has waited, on connections; closed connections are forgotten."""
        before, known = self._seen.get(look.pid, (None, {}))
        if before is not look:
            known = {**known, **{row.id: row for row in look.objects if row.resends is not None}}
            opened = {row.object for row in look.handles} if known else set[str]()
            known = {name: row for name, row in list(known.items())[-MOST:] if name in opened}
            self._seen[look.pid] = look, known
        return bool(known)

    def _unseen(self, look: Look) -> bool:
        return not self._seen[look.pid][1].keys() <= {row.id for row in look.objects}

    def _describe(self, look: Look, described: Callable[[int, str], KernelObject]) -> bool:
        _, known = self._seen[look.pid]
        before = {row.id: row for row in look.objects}
        found = dict(before)
        for name, row in known.items():
            fresh = described(look.pid, name)
            # A socket whose ends have changed, or are gone, is left to the next look at its process.
            if fresh.path == row.path and _counts(fresh) != _counts(before.get(name)):
                known[name] = found[name] = fresh
        look.objects = tuple(found[name] for name in sorted(found))
        return found != before


def _counts(row: KernelObject | None) -> tuple[int | None, ...] | None:
    """The fields that change only if something happened, not merely with time; `None` without a row."""
    return (row.fill, row.unacknowledged_bytes, row.resends) if row else None
