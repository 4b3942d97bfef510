"""What is wrong, in short for the panel and in full for the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpmon.diagnosis.findings import Certainty, Finding, Link, by_reason
from mpmon.tui import format as fmt
from mpmon.tui.describe.crowd import crowd
from mpmon.tui.describe.picture import drawn_pids, is_suspect, picture, suspect_threads
from mpmon.tui.describe.remarks import MARK, first_remark, remark_count, remarks_in_full
from mpmon.tui.line import BLANK, Line, Span, clip, plain, shorten, wrap, wrap_spans

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from mpmon.diagnosis.findings import Suspect
    from mpmon.tui.scene import Scene

SMALL = 6
"""Where there are no more lines than these, a remark gets one."""

WITHOUT_FINDING = 4
"""Lines at most while there is no finding: then the processes matter more."""

CERTAINTY_STYLES = {Certainty.PROVED: "bold", Certainty.LIKELY: "", Certainty.POSSIBLE: "dim"}


def in_short(scene: Scene, width: int, height: int) -> list[Line]:
    """The strongest finding in at most `height` lines: summary, chain, certainty, then evidence as space allows."""
    finding = scene.finding
    if finding is None:
        lines = wrap(scene.diagnosis.because or "no finding yet", width)
        lines += first_remark(scene, width, 1 if height <= SMALL else 2)
        lines += [clip(plain(f"not checked: {line}", "dim"), width) for line in by_reason(scene.diagnosis.unchecked)]
        return shorten(lines, min(height, WITHOUT_FINDING))
    lines = shorten(wrap(finding.summary, width, style="bold"), 2)
    lines += chain(finding.chain, width, most=2, suspects=suspect_threads(finding))
    lines.append(certainty(scene, finding, width))
    lines += [clip(plain(f"· {fact}"), width) for fact in finding.evidence]
    return lines[:height]


def chain(
    links: tuple[Link, ...], width: int, *, most: int, suspects: frozenset[tuple[int, str]] = frozenset()
) -> list[Line]:
    """`main → next batch → dataloader worker 1 → time.sleep dataset.py:88`.

    Links in the middle give way when it does not fit in `most` lines; the end is who must move, but in a cycle, where
    the suspects are somewhere on it.
    """
    left_out = 0
    while True:
        lines = wrap_spans(_chain_spans(links, left_out, suspects), width)
        if len(lines) <= most or left_out >= len(links) - 2:
            return lines[-most:]
        left_out += 1


def _chain_spans(links: tuple[Link, ...], left_out: int, suspects: frozenset[tuple[int, str]]) -> list[Span]:
    """The chain without so many links before the last one."""
    last = len(links) - 1
    spans: list[Span] = []
    for index, link in enumerate(links):
        if last - left_out <= index < last:
            continue
        if index == last and left_out:
            spans.append(("→ … ", "dim"))
        spans.append((f"{'→ ' if index else ''}{_who(link)} ", "bad" if is_suspect(link, suspects) else ""))
        if link.does:
            spans.append((f"→ {link.does} ", ""))
    if links and (place := links[last].place):
        spans.append((f"{fmt.file_name(place.file)}:{place.line}", "place"))
    return spans


def _who(link: Link) -> str:
    """A role, and the thread of it when that is not the main one."""
    return f"{link.role}, {link.thread}" if link.thread else link.role


def certainty(scene: Scene, finding: Finding, width: int) -> Line:
    """How sure, since when, and how many more findings there are."""
    spans: list[Span] = [(finding.certainty.value, CERTAINTY_STYLES[finding.certainty]), (f" · {finding.cause}", "")]
    if finding.since is not None:
        spans.append((f" · still for {fmt.age(scene.since(finding.since))}", ""))
    more = len(scene.diagnosis.findings) - 1
    if more:
        spans.append((f" · +{more} more (w)", "dim"))
    if scene.diagnosis.remarks:
        spans += [(" · ", ""), MARK, (remark_count(scene), "")]
    return clip(tuple(spans), width)


def in_full(scene: Scene, width: int) -> list[Line]:
    """Every finding with its chain, evidence and advice, and what could not be checked."""
    lines: list[Line] = []
    for number, finding in enumerate(scene.diagnosis.findings, 1):
        lines += [*_one_in_full(scene, finding, number, width), BLANK]
    if not lines:
        lines = [*wrap(scene.diagnosis.because or "no finding", width), BLANK]
    return lines + remarks_in_full(scene, width) + _unchecked(scene, width)


def _one_in_full(scene: Scene, finding: Finding, number: int, width: int) -> list[Line]:
    lines = wrap(f"{number}. {finding.summary}", width, style="bold", then="   ")
    since = f", still for {fmt.age(scene.since(finding.since))}" if finding.since is not None else ""
    lines.append(plain(f"   {finding.certainty.value}: {finding.cause}{since}", "dim"))
    lines += picture(scene, finding, width)
    drawn = drawn_pids(scene, finding)
    for suspect in finding.suspects:
        if suspect.pid not in drawn:
            lines += wrap(_suspect_words(suspect), width, first="   must move first: ", then="     ", style="bad")
    lines += _listed("also wait" if drawn else "wait", _waiting(scene, finding, drawn), width)
    lines += _listed("evidence", finding.evidence, width)
    return lines + _listed("what to do", finding.advice, width)


def _suspect_words(suspect: Suspect) -> str:
    gone = f" (dead: {suspect.end or 'ended'})" if suspect.dead else ""
    place = f", {suspect.frame}" if suspect.frame else ""
    return f"{suspect.role} ({suspect.pid}){gone}, {suspect.thread}{place}"


def _waiting(scene: Scene, finding: Finding, drawn: AbstractSet[int]) -> list[str]:
    """Who else waits, those for the same together."""
    same: dict[str, list[int]] = {}
    for waiter in finding.waiters:
        if waiter.pid not in drawn:
            same.setdefault(waiter.waits_for, []).append(waiter.pid)
    return [f"{crowd(scene, pids)}: {words}" for words, pids in same.items()]


def _listed(title: str, items: tuple[str, ...] | list[str], width: int) -> list[Line]:
    """A titled list, nothing when it is empty."""
    if not items:
        return []
    lines = [plain(f"   {title}:", "title")]
    for item in items:
        lines += wrap(item, width, first="   · ", then="     ")
    return lines


def _unchecked(scene: Scene, width: int) -> list[Line]:
    """Not checked is not the same as not found."""
    if not scene.diagnosis.unchecked:
        return []
    lines = [plain("could not be checked:", "title")]
    for line in by_reason(scene.diagnosis.unchecked):
        lines += wrap(line, width, first="· ", then="  ")
    return lines
