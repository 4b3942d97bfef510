"""The wait-for chain as a picture: a box for each that waits, an arrow to whom it waits for, a lane back for a cycle.

    ┌─ rank 0–6 ─────────────────────────────┐
    │ all_reduce  train.py:41 in step        │
    └─┬──────────────────────────────────────┘
    ┌─↓ rank 7 (4108) ── blocks the others ──┐←─┐
    │ barrier  train.py:44 in step           │──┘
    └────────────────────────────────────────┘

Who waits in the same place as a link of the chain shares its box, so that 255 ranks that wait for one are one box.
A suspect in the middle of a chain closes a cycle: one that must move first waits only for those who wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mpmon.tui.describe.naming import kind_of, names_of
from mpmon.tui.line import Line, Span, cells, clip, wrap_spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpmon.diagnosis.findings import Finding, Link
    from mpmon.tui.scene import Scene

INDENT = "   "
LANE = 3
"""Cells at the right for the way back of a cycle."""

MOST_BOXES = 9
"""A longer chain loses its middle."""

NARROWEST = 24
FIRST = "blocks the others"
WAITS_FOR_ITSELF = "self-deadlock"
"""The cause of a cycle of one."""


class Box(NamedTuple):
    """One or more processes that wait in the same place."""

    pids: tuple[int, ...]
    title: str
    does: str
    place: str
    suspect: bool = False


def picture(scene: Scene, finding: Finding, width: int) -> list[Line]:
    """The chain of a finding from top to bottom; empty when it has none."""
    boxes = _boxes(scene, finding)
    if not boxes:
        return []
    back = _cycle(finding, boxes)
    boxes, back = _without_middle(boxes, back)
    room = width - len(INDENT) - LANE
    inner = max(NARROWEST, min(room - len("│  │"), max(map(_wanted, boxes))))
    lines: list[Line] = []
    for number, box in enumerate(boxes):
        lines += _drawn(box, inner, _Place(number, len(boxes), back))
    return [((INDENT, ""), *line) for line in lines]


def drawn_pids(scene: Scene, finding: Finding) -> frozenset[int]:
    """Who is in the picture."""
    return frozenset(pid for box in _boxes(scene, finding) for pid in box.pids)


# Who is in which box


def _boxes(scene: Scene, finding: Finding) -> list[Box]:
    """One for each link, but for links that stand in the same place."""
    suspects = suspect_threads(finding)
    others = {w.pid for w in finding.waiters} - {link.pid for link in finding.chain}
    boxes: list[Box] = []
    for run in _runs(finding.chain, suspects):
        first = run[0]
        with_them = {pid for pid in others if not first.thread and _stands_with(scene, pid, first.pid)}
        others -= with_them
        pids = tuple(sorted({*(link.pid for link in run if link.pid), *with_them}))
        title = (names_of(scene, pids) if pids else first.role) + (f", {first.thread}" if first.thread else "")
        place = str(first.place) if first.place else ""
        boxes.append(Box(pids, title, first.does, place, is_suspect(first, suspects)))
    return boxes


def _runs(chain: tuple[Link, ...], suspects: frozenset[tuple[int, str]]) -> list[list[Link]]:
    """Links that share a box, at the place of the last of them.

    They follow each other, or have a suspect between them: of those who wait for it in a collective one may come before it in
    the chain and another after it.
    """
    runs: list[list[Link]] = []
    for link in chain:
        at = None if is_suspect(link, suspects) else _place_of_alike(runs, link, suspects)
        runs.append([link] if at is None else [*runs.pop(at), link])
    return runs


def _place_of_alike(runs: list[list[Link]], link: Link, suspects: frozenset[tuple[int, str]]) -> int | None:
    for place, run in enumerate(runs):
        nearby = place == len(runs) - 1 or any(is_suspect(between[0], suspects) for between in runs[place + 1 :])
        if nearby and _alike(run[0], link) and not is_suspect(run[0], suspects):
            return place
    return None


def _alike(one: Link, other: Link) -> bool:
    same = (one.does, one.place, one.thread) == (other.does, other.place, other.thread)
    return same and bool(one.pid and other.pid) and kind_of(one.role).name == kind_of(other.role).name


def suspect_threads(finding: Finding) -> frozenset[tuple[int, str]]:
    """Pid and thread of those who must move first."""
    return frozenset((suspect.pid, suspect.thread) for suspect in finding.suspects)


def is_suspect(link: Link, suspects: frozenset[tuple[int, str]]) -> bool:
    """Whether this link must move first."""
    return (link.pid, link.thread or "MainThread") in suspects


def _stands_with(scene: Scene, pid: int, other: int) -> bool:
    """Both are of one kind and do the same."""
    views = scene.views
    if pid not in views or other not in views or pid in scene.suspects or other in scene.suspects:
        return False
    one, two = views[pid], views[other]
    return (kind_of(one.role).name, one.does) == (kind_of(two.role).name, two.does) and bool(one.does)


def _cycle(finding: Finding, boxes: list[Box]) -> tuple[int, int] | None:
    """From which box the way leads back, and to which."""
    first = next((number for number, box in enumerate(boxes) if box.suspect), None)
    last = max((number for number, box in enumerate(boxes) if box.pids), default=0)
    if first is None or last < len(boxes) - 1:
        return None
    itself = first == last and finding.cause == WAITS_FOR_ITSELF
    return (last, first) if first < last or itself else None


def _without_middle(boxes: list[Box], back: tuple[int, int] | None) -> tuple[list[Box], tuple[int, int] | None]:
    """A chain that is too long keeps its beginning, its end, and where the cycle begins if that is near the beginning."""
    left_out = len(boxes) - MOST_BOXES
    if left_out <= 0:
        return boxes, back
    head = MOST_BOXES // 2
    gap = boxes[head : head + left_out + 1]
    pids = tuple(pid for box in gap for pid in box.pids)
    kept = [*boxes[:head], Box(pids, f"{len(gap)} more", "each waits for the next", ""), *boxes[head + len(gap) :]]
    return kept, back and (len(kept) - 1, min(back[1], head))


# Drawing


class _Place(NamedTuple):
    """Where a box stands in the picture."""

    number: int
    boxes: int
    back: tuple[int, int] | None

    @property
    def is_last(self) -> bool:
        return self.number == self.boxes - 1

    def lane(self, line: str) -> str:
        """What the lane at the right shows beside the first line of the box, its first text, or a later line."""
        if self.back is None:
            return ""
        begins, ends = self.back
        if line == "top":
            return "←─┐" if self.number == ends else "  │" if ends < self.number <= begins else ""
        if line == "text":
            return "──┘" if self.number == begins else "  │" if ends <= self.number < begins else ""
        return "  │" if ends <= self.number < begins else ""


def _wanted(box: Box) -> int:
    """Cells the box would like inside of its frame."""
    title = cells(_title(box)) + 3
    return max(title, cells(_spans(box)))


def _title(box: Box) -> Line:
    style = "bad" if box.suspect else "bold" if box.pids else "dim"
    told: Line = ((f" ── {FIRST}", "bad"),) if box.suspect else ()
    return ((box.title, style), *told)


def _spans(box: Box) -> Line:
    """What it does, and where."""
    return ((box.does, ""), *(((f"  {box.place}", "place"),) if box.place else ()))


def _drawn(box: Box, inner: int, place: _Place) -> Iterator[Line]:
    frame = "bad" if box.suspect else "dim"
    arrow: Span = ("─" if place.number == 0 else "↓", frame)
    title = clip(_title(box), inner - 2)
    fill = "─" * (inner - cells(title) - 2)
    yield (("┌─", frame), arrow, (" ", ""), *title, (f" {fill}┐", frame), (place.lane("top"), "dim"))
    for number, line in enumerate(wrap_spans(_spans(box), inner, then="  ")):
        text = clip(line, inner)
        padding = " " * (inner - cells(text))
        side = place.lane("text" if number == 0 else "below")
        yield (("│ ", frame), *text, (f"{padding} │", frame), (side, "dim"))
    corner = "──" if place.is_last else "─┬"
    yield ((f"└{corner}{'─' * inner}┘", frame), (place.lane("below"), "dim"))
