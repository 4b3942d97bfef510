"""What else there is to know: in short where there is room, in full on the page of the findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpmon.tui import format as fmt
from mpmon.tui.line import BLANK, Line, Span, clip, plain, shorten, wrap

if TYPE_CHECKING:
    from mpmon.diagnosis.findings import Remark
    from mpmon.tui.scene import Scene

MARK: Span = ("! ", "warn")


def first_remark(scene: Scene, width: int, height: int) -> list[Line]:
    """The worst remark in at most `height` lines, and how many more there are."""
    first = next(iter(scene.diagnosis.remarks), None)
    if first is None:
        return []
    others = len(scene.diagnosis.remarks) - 1
    more = f" · +{others} more (w)" if others else " (w)"
    lines = shorten(wrap(first.summary, width - 2 - len(more)), height)
    marked: list[Line] = [(MARK if number == 0 else ("  ", ""), *line) for number, line in enumerate(lines)]
    marked[-1] = (*marked[-1], (more, "dim"))
    return [clip(line, width) for line in marked]


def remark_count(scene: Scene) -> str:
    """`2 remarks (w)`, nothing when there is none."""
    count = len(scene.diagnosis.remarks)
    return f"{fmt.plural(count, 'remark')} (w)" if count else ""


def remarks_in_full(scene: Scene, width: int) -> list[Line]:
    """Every remark with its evidence and advice."""
    if not scene.diagnosis.remarks:
        return []
    lines = [plain("remarks:", "title")]
    for remark in scene.diagnosis.remarks:
        lines += [*_in_full(scene, remark, width), BLANK]
    return lines


def _in_full(scene: Scene, remark: Remark, width: int) -> list[Line]:
    first, *rest = wrap(remark.summary, width - 2, style="bold")
    lines: list[Line] = [(MARK, *first), *((("  ", ""), *line) for line in rest)]
    since = f", for {fmt.age(scene.since(remark.since))}" if remark.since is not None else ""
    lines.append(plain(f"  {remark.topic}{since}", "dim"))
    for fact in remark.evidence:
        lines += wrap(fact, width, first="  · ", then="    ")
    for step in remark.advice:
        lines += wrap(step, width, first="  → ", then="    ")
    return lines
