"""Which machines the front end requests full facts from, given what all machines report, and which stand for the rest.

A hang is explained by the ranks that differ. So every machine of a small class is queried, and one machine of each
other class, representing the class: together they represent the job. If all ranks are in one class, as after a failure
of a link or device, classes say nothing; then the machines that differ from the others in some figure
(`mpmon.diagnosis.throughput.figures`) are queried too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from mpmon.diagnosis.throughput.figures import differences
from mpmon.model import Elsewhere, Figures
from mpmon.nodes.digest import Class, Digest, at, in_time, of_last_start
from mpmon.nodes.digest import union as joined
from mpmon.nodes.names import folded
from mpmon.spans import Spans, both, count, spans, union, without

FEW = 4
"""Up to this many machines of a class are all queried."""

MOST = 24
"""Most machines queried. If more differ, none is the odd one; if the job has no more machines, all are queried."""

ODD = 2
"""Most machines queried for their figures: the first that differ, in the order of the figures."""


def choose(whole: Digest, figures: Mapping[int, Figures] | None = None) -> Spans:
    """The machines to query, by number; `figures` are what they report about themselves."""
    chosen: Spans = ()
    if len({row.kind for row in whole if row.kind.is_rank}) < 2:
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
    """What is known of the unobserved ranks, given the observed ones; also where they run, by the names of all machines
    except those queried.
    """
    rows = ((row, without(row.ranks, here)) for row in whole if row.kind.is_rank)
    found = ((_row(row, left, here), without(row.nodes, asked)) for row, left in rows if left)
    return tuple(msgspec.structs.replace(row, **_where(nodes, names)) for row, nodes in found)


def _where(nodes: Spans, names: Sequence[str]) -> dict[str, object]:
    if not names:
        return {}
    numbers = (number for first, last in nodes for number in range(first, last + 1))
    return {"machines": count(nodes), "hosts": folded(names[number] for number in numbers)}


class Picks:
    """The machines to request facts from, from round to round."""

    def __init__(self, machines: int, names: Sequence[str] = ()) -> None:
        """`machines` is their number; they may have names."""
        self._names = tuple(names)
        self.asked: Spans = ((0, machines - 1),) if 0 < machines <= MOST else ()
        """By number: all if there are few; none until it is known what they report."""
        self._is_few = machines <= MOST
        self.wanted: Spans = ()
        """Machines that the user wants to see, which are always queried."""
        self._told: dict[int, tuple[Digest, float]] = {}
        self._rows: dict[int, Digest] = {}
        self._whole: Digest = ()

    def add(self, names: Sequence[str]) -> None:
        """Machines were added to the job."""
        self._names = (*self._names, *names)
        self._is_few = len(self._names) <= MOST
        if self._is_few:
            self.asked = ((0, len(self._names) - 1),)

    def hear(self, told: Mapping[int, tuple[Digest, float]], figures: Mapping[int, Figures] | None = None) -> bool:
        """Update with what each answering machine reports of its ranks, its clock's offset, and its figures; returns
        whether more machines are to be queried now.

        A queried machine stays queried while there is room: a class that comes and goes is no reason to lose sight of a
        machine.
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
        """What is known of the ranks of all machines whose facts are not at hand."""
        asked, kinds = tuple(here), {row.kind for row in self._whole if row.kind.is_rank}
        ranks = union(*(row.ranks for number in asked for row in self._rows.get(number, ()) if row.kind in kinds))
        return elsewhere(self._whole, ranks, self._names, spans(asked))

    def _row(self, number: int, classes: Digest, offset_s: float) -> Digest:
        """The row; unchanged rows stay the same objects."""
        if self._told.get(number) == (classes, offset_s):
            return self._rows[number]
        return in_time(at(classes, number), offset_s)


def _row(row: Class, left: Spans, here: Spans) -> Elsewhere:
    alike = both(row.ranks, here)
    return Elsewhere(
        ranks=left, does=row.does or "which make progress", operation=row.kind.operation or None, members=row.kind.group,
        since=row.newest, like=alike[0][0] if alike and row.kind.waits else None,
    )  # fmt: skip


def _urgency(row: Class) -> tuple[int, bool, int, tuple[int, int]]:
    """Small classes first, ranks before other roles; classes that make progress explain nothing."""
    return count(row.nodes) if row.kind.waits else 1 << 62, not row.kind.is_rank, count(row.ranks), row.first
