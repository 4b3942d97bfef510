"""Whose facts the front end asks for, given what all machines say of theirs, and who stands for the rest.

A hang is explained by those who differ.  So all machines of a class that only few are in are asked, and of each other class
one, which stands for all of it: together they answer for the whole job.  Where all ranks are in one class, as when a link or
a device fails, classes tell nothing; then whoever differs from the others in some figure (`mpmon.diagnosis.figures`) is asked
too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from mpmon.diagnosis.figures import differences
from mpmon.model import Elsewhere, Figures
from mpmon.nodes.digest import Class, Digest, at, in_time, of_last_start
from mpmon.nodes.digest import union as joined
from mpmon.nodes.names import folded
from mpmon.spans import Spans, both, count, spans, union, without

FEW = 4
"""Machines of a class that are all asked."""

MOST = 24
"""Machines that are asked. Where more differ, none of them is the one that does; where there are no more, all are."""

ODD = 2
"""Machines that are asked for their figures: the first that differ, in the order in which figures are told."""


def choose(whole: Digest, figures: Mapping[int, Figures] | None = None) -> Spans:
    """The machines to ask, by their numbers; `figures` are what they say of themselves."""
    chosen: Spans = ()
    if len({row.kind for row in whole if row.kind.role == "rank"}) < 2:
        odd = dict.fromkeys(row.machine for row in differences(figures or {}))
        chosen = spans(list(odd)[:ODD])
    for row in sorted(whole, key=_urgency):
        if count(row.nodes) <= FEW:
            wanted = row.nodes
        elif both(row.nodes, chosen):
            continue
        else:
            wanted = spans((row.first[1],))
        if count(union(chosen, wanted)) <= MOST:
            chosen = union(chosen, wanted)
    return chosen


def elsewhere(whole: Digest, here: Spans, names: Sequence[str] = (), asked: Spans = ()) -> tuple[Elsewhere, ...]:
    """What is known of the ranks that are not at hand, given those that are; by the names of all machines also where they run,
    but for the machines that were asked.
    """
    rows = ((row, without(row.ranks, here)) for row in whole if row.kind.role == "rank")
    found = ((_row(row, left, here), without(row.nodes, asked)) for row, left in rows if left)
    return tuple(msgspec.structs.replace(row, **_where(nodes, names)) for row, nodes in found)


def _where(nodes: Spans, names: Sequence[str]) -> dict[str, object]:
    if not names:
        return {}
    numbers = (number for first, last in nodes for number in range(first, last + 1))
    return {"machines": count(nodes), "hosts": folded(names[number] for number in numbers)}


class Picks:
    """Whose facts are asked for, from round to round."""

    def __init__(self, machines: int, names: Sequence[str] = ()) -> None:
        """Of so many, which may have names."""
        self._names = tuple(names)
        self.asked: Spans = ((0, machines - 1),) if 0 < machines <= MOST else ()
        """By their numbers: all where they are few; nobody before it is known what they say."""
        self._is_few = machines <= MOST
        self.wanted: Spans = ()
        """Those that somebody wants to see, and that are asked in any case."""
        self._told: dict[int, tuple[Digest, float]] = {}
        self._rows: dict[int, Digest] = {}
        self._whole: Digest = ()

    def add(self, names: Sequence[str]) -> None:
        """The job has got more machines."""
        self._names = (*self._names, *names)
        self._is_few = len(self._names) <= MOST
        if self._is_few:
            self.asked = ((0, len(self._names) - 1),)

    def hear(self, told: Mapping[int, tuple[Digest, float]], figures: Mapping[int, Figures] | None = None) -> bool:
        """What each machine that answers says of its ranks, how far its clock is ahead, and what it says of itself; whether more
        are to be asked now.

        Who was asked stays so while there is room: a class that comes and goes is no reason to lose sight of a machine.
        """
        if told != self._told:
            self._rows = {number: self._row(number, *said) for number, said in told.items()}
            self._told, self._whole = dict(told), of_last_start(joined(*self._rows.values()))
        if self._is_few:
            return False
        wanted = union(choose(self._whole, figures) or spans(sorted(told)[:MOST]), self.wanted)
        is_more = bool(without(wanted, self.asked))
        if is_more:
            kept = union(self.asked, wanted)
            self.asked = kept if count(kept) <= MOST else wanted
        return is_more

    def elsewhere(self, here: Iterable[int]) -> tuple[Elsewhere, ...]:
        """What is known of the ranks of all other machines than those of which facts are at hand."""
        asked, kinds = tuple(here), {row.kind for row in self._whole if row.kind.role == "rank"}
        ranks = union(*(row.ranks for number in asked for row in self._rows.get(number, ()) if row.kind in kinds))
        return elsewhere(self._whole, ranks, self._names, spans(asked))

    def _row(self, number: int, classes: Digest, offset_s: float) -> Digest:
        """What did not change stays the same."""
        if self._told.get(number) == (classes, offset_s):
            return self._rows[number]
        return in_time(at(classes, number), offset_s)


def _row(row: Class, left: Spans, here: Spans) -> Elsewhere:
    alike = both(row.ranks, here)
    return Elsewhere(
        ranks=left, does=row.kind.does or "which get on", operation=row.kind.operation or None, members=row.kind.group,
        since=row.newest, like=alike[0][0] if alike and row.kind.does else None,
    )  # fmt: skip


def _urgency(row: Class) -> tuple[int, bool, int, tuple[int, int]]:
    """Small classes first, of ranks before others; those that get on say nothing."""
    return count(row.nodes) if row.kind.does else 1 << 62, row.kind.role != "rank", count(row.ranks), row.first
