"""What is wrong, in short for the panel and in full for the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpmon.diagnosis.findings import Certainty, Finding, Link, by_reason
from mpmon.tui import format as fmt
from mpmon.tui.describe.hosts import unseen
from mpmon.tui.describe.naming import kind_of, names_of, short_names
from mpmon.tui.describe.picture import drawn_pids, is_suspect, picture, suspect_threads
from mpmon.tui.describe.remarks import MARK, first_remark, remark_count, remarks_in_full
from mpmon.tui.describe.throughput import throughput, throughput_before
from mpmon.tui.line import BLANK, Line, Span, clip, plain, shorten, text_of, wrap, wrap_spans

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from mpmon.diagnosis.findings import Suspect
    from mpmon.tui.scene import Scene

SMALL = 7
"""Lines of a finding on the smallest screen."""

WHOLE_CHAIN = 4
"""Lines for a chain of which nothing is left out."""

FLOWS, MOST_FLOWS = 2, 12
"""Lines for how much gets through, in the panel and on the page."""

TO_DO = "to do: "

MORE = " … (w)"

WITHOUT_FINDING = 5
"""Lines at most while there is no finding: then the processes matter more."""

CERTAINTY_STYLES = {Certainty.PROVED: "bold", Certainty.LIKELY: "", Certainty.POSSIBLE: "dim"}


def in_short(scene: Scene, width: int, height: int) -> list[Line]:
    """The strongest finding in at most `height` lines: what is wrong, the chain, the cause, what to do, how that is known."""
    finding = scene.finding
    if finding is None:
        if scene.over:
            return shorten(_ends(scene, width), height)
        whole = _without_finding(scene, width, remark=2)
        return whole if len(whole) <= height else shorten(_without_finding(scene, width, remark=1), height)
    summary = wrap(finding.summary, width, style="bold")
    links = chain(scene, finding, width, most=WHOLE_CHAIN)
    advice, *more_advice = [_to_do(step, width) for step in finding.advice] or [[]]
    if len(summary) + len(links) + 1 + len(advice) > height:
        summary = shorten(summary, 2)
        links = chain(scene, finding, width, most=max(2, height - len(summary) - 1 - len(advice)))
    head = [*summary, *links, certainty(scene, finding, width), *_unseen(scene, width)]
    known = (*throughput_before(scene, FLOWS), *finding.evidence)
    facts = [line for fact in known for line in wrap(fact, width, first="· ", then="  ")]
    others = [line for step in more_advice for line in step]
    lines = [*head, *facts, *advice, *others]
    if len(lines) <= height:
        return lines
    # Where not all has room, what to do first comes before how it is known.
    lines = [*head, *advice, *facts, *others]
    last = clip(lines[height - 1], width - len(MORE))
    return [*lines[: height - 1], (*last, (MORE.removeprefix(" …") if text_of(last).endswith("…") else MORE, "dim"))]


def _unseen(scene: Scene, width: int) -> list[Line]:
    said = unseen(scene)
    return [clip(plain(said, "warn"), width)] if said else []


def _to_do(step: str, width: int) -> list[Line]:
    """One piece of advice, as the cause is said."""
    first, *rest = wrap(step, width, first=TO_DO, then="  ")
    return [((TO_DO, "dim"), (text_of(first)[len(TO_DO) :], "")), *rest]


def least_lines(scene: Scene, width: int) -> int:
    """Lines there should be whatever else is to be shown: in trouble all that it can use."""
    return SMALL if scene.finding or scene.over else len(_without_finding(scene, width, remark=1))


def _without_finding(scene: Scene, width: int, *, remark: int) -> list[Line]:
    """Why it is said to be healthy, slow or not known; how much gets through; what else to know, in so many lines."""
    lines = wrap(scene.diagnosis.because or "no finding yet", width)
    lines += _unseen(scene, width)
    lines += throughput(scene, width, FLOWS)
    lines += first_remark(scene, width, remark)
    lines += [clip(plain(f"not checked: {line}", "dim"), width) for line in by_reason(scene.diagnosis.unchecked)]
    return shorten(lines, WITHOUT_FINDING)


def _ends(scene: Scene, width: int) -> list[Line]:
    """Who failed first, and how the job's own process ended."""
    died = [event for event in scene.observation.events if event.kind == "died"]
    first = next((event for event in died if event.bad), None)
    own = next((event for event in reversed(died) if scene.snapshot.root_pid in event.pids), None)
    said = [f"first to fail: {first.summary}, at {fmt.clock(first.at)}"] if first and first is not own else []
    said += [f"{own.summary}, at {fmt.clock(own.at)}"] if own else []
    lines = [line for text in said for line in wrap(text, width, style="bad" if first else "")]
    return lines or wrap(scene.diagnosis.because, width)


def chain(scene: Scene, finding: Finding, width: int, *, most: int) -> list[Line]:
    """`rank 0–6 → all_reduce → rank 7 → next batch → dataloader worker 1 → time.sleep dataset.py:88`.

    Links in the middle give way when it does not fit in `most` lines; the end is who must move, but in a cycle, where
    the suspects are somewhere on it.
    """
    left_out = 0
    while True:
        lines = wrap_spans(_chain_spans(scene, finding, left_out), width)
        if len(lines) <= most:
            return lines
        if left_out >= len(finding.chain) - 2:
            first, *rest = lines[-most:]
            return [(("… ", "dim"), *first[1:]), *rest]
        left_out += 1


def _chain_spans(scene: Scene, finding: Finding, left_out: int) -> list[Span]:
    """The chain without so many links before the last one."""
    links, suspects = finding.chain, suspect_threads(finding)
    last = len(links) - 1
    spans: list[Span] = []
    for index, link in enumerate(links):
        if last - left_out <= index < last:
            continue
        if index == last and left_out:
            spans.append(("→ … ", "dim"))
        spans.append(
            (f"{'→ ' if index else ''}{in_chain(scene, finding, link)} ", "bad" if is_suspect(link, suspects) else "")
        )
        if link.does:
            spans.append((f"→ {link.does} ", ""))
    if links and (place := links[last].place):
        spans.append((f"{fmt.file_name(place.file)}:{place.line}", "place"))
    return spans


def in_chain(scene: Scene, finding: Finding, link: Link) -> str:
    """How a link of the chain is named there."""
    return _who(link) if link is not finding.chain[0] else _head(scene, finding)


def _who(link: Link) -> str:
    """A role, and the thread of it when that is not the main one."""
    return f"{link.role}, {link.thread}" if link.thread else link.role


def _head(scene: Scene, finding: Finding) -> str:
    """Who waits at the beginning of the chain, with all of its kind that wait for the same."""
    link = finding.chain[0]
    waits = {waiter.pid: (kind_of(waiter.role).name, waiter.waits_for) for waiter in finding.waiters}
    alike = [pid for pid, what in waits.items() if what == waits.get(link.pid)]
    return short_names(scene, sorted(alike)) if len(alike) > 1 and not link.thread else _who(link)


def certainty(scene: Scene, finding: Finding, width: int) -> Line:
    """The cause and how sure it is, since when, and how many more findings there are."""
    spans: list[Span] = [("cause: ", "dim"), (finding.cause, ""), _sure(finding)]
    if finding.since is not None:
        spans.append((f" · since {fmt.clock(finding.since)}", ""))
    more = len(scene.diagnosis.findings) - 1
    if more:
        spans.append((f" · +{more} more (w)", "dim"))
    if scene.diagnosis.remarks:
        spans += [(" · ", ""), MARK, (remark_count(scene), "")]
    return clip(tuple(spans), width)


def _sure(finding: Finding) -> Span:
    return (f" ({finding.certainty.value})", CERTAINTY_STYLES[finding.certainty])


def in_full(scene: Scene, width: int) -> list[Line]:
    """Every finding with its chain, evidence and advice, or what each process does; and what could not be checked."""
    lines: list[Line] = []
    for number, finding in enumerate(scene.diagnosis.findings, 1):
        lines += [*_one_in_full(scene, finding, number, width), BLANK]
    if not lines:
        lines = [
            *wrap(scene.diagnosis.because or "no finding", width), *throughput(scene, width, most=MOST_FLOWS), BLANK,
            *_activities(scene, width), BLANK,
        ]  # fmt: skip
    return lines + remarks_in_full(scene, width) + _unchecked(scene, width)


def _activities(scene: Scene, width: int) -> list[Line]:
    """What each process does, those that do the same together, and since when if it stands still."""
    same: dict[str, list[int]] = {}
    for view in scene.diagnosis.processes:
        same.setdefault(view.does or view.mood or fmt.UNKNOWN, []).append(view.pid)
    lines = [plain("what each process does:", "title")]
    for does, pids in same.items():
        style = "warn" if scene.slowest.intersection(pids) else ""
        lines += wrap(f"{names_of(scene, pids)}: {does}", width, first="· ", then="  ", style=style)
    return lines


def _one_in_full(scene: Scene, finding: Finding, number: int, width: int) -> list[Line]:
    lines = wrap(f"{number}. {finding.summary}", width, style="bold", then="   ")
    since = f", no progress for {fmt.age(scene.since(finding.since))}" if finding.since is not None else ""
    lines.append(plain(f"   {finding.certainty.value}: {finding.cause}{since}", "dim"))
    lines += picture(scene, finding, width)
    drawn = drawn_pids(scene, finding)
    for suspect in finding.suspects:
        if suspect.pid not in drawn:
            lines += wrap(_suspect_words(scene, suspect), width, first="   blocked by: ", then="     ", style="bad")
    lines += _listed("also wait" if drawn else "wait", _waiting(scene, finding, drawn), width)
    lines += _listed("before", throughput_before(scene, FLOWS) if finding is scene.finding else [], width)
    lines += _listed("evidence", finding.evidence, width)
    lines += _listed("not proved", finding.doubts, width)
    return lines + _listed("what to do", finding.advice, width)


def _suspect_words(scene: Scene, suspect: Suspect) -> str:
    gone = f" (dead: {suspect.end or 'ended'})" if suspect.dead else ""
    place = f", {suspect.frame}" if suspect.frame else ""
    return f"{suspect.role} ({scene.hosts.pid(suspect.pid)}){gone}, {suspect.thread}{place}"


def _waiting(scene: Scene, finding: Finding, drawn: AbstractSet[int]) -> list[str]:
    """Who else waits, those for the same together."""
    same: dict[str, list[int]] = {}
    for waiter in finding.waiters:
        if waiter.pid not in drawn:
            same.setdefault(waiter.waits_for, []).append(waiter.pid)
    return [f"{names_of(scene, pids)}: {words}" for words, pids in same.items()]


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
