"""Does top-level code loop without progress?

A training loop may compute as long as it likes, and nearly always something shows its progress: an iterator, a counter,
a queue that gets shorter, a changed matrix. A search that never finds its goal computes as well, but the calls around it
stay the same, and no object reachable from its variables takes a new value. Plain numbers may go up and down, as in a
random search. That is a strong hint, not proof. If some state cannot be read, the loop is assumed to make progress.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import accumulate, pairwise, takewhile

from mpmon.diagnosis.stacks.frames import is_user
from mpmon.diagnosis.stacks.waits import context
from mpmon.diagnosis.state.history import Sample
from mpmon.diagnosis.thresholds import MATCHES_SEEN, ROUND_MOVES, ROUND_READINGS, ROUND_S, SHORT_TEXT, TORN_SHARE
from mpmon.model import Frame, Stack

NOT_KNOWN = -1
"""The position of an iterator, or the digest of an object, that could not be read."""


def round_since(samples: Sequence[Sample]) -> float | None:
    """Since when a thread has looped without progress, seconds since the epoch; `None` if it has not, or too little was
    seen.
    """
    computing = list(takewhile(_computes, reversed(samples)))[::-1]
    stacks = list({id(sample.stack): sample.stack for sample in computing if sample.stack}.values())
    if sum(map(_is_read, stacks)) < ROUND_READINGS or context(stacks[-1]):
        return None
    stacks = _whole(stacks)
    depth = _loop(stacks) if sum(map(_is_read, stacks)) >= ROUND_READINGS else None
    return None if depth is None else _circles_since(stacks, depth, computing[0].at, computing[-1].at)


def has_news(samples: Sequence[Sample]) -> bool:
    """Since the first of these samples a new value was found in the loop that the thread is in, or in the calls around it."""
    stacks = list({id(sample.stack): sample.stack for sample in samples if sample.stack}.values())
    read = [stack for stack in stacks if _is_read(stack)]
    depth = _loop(read) if len(read) > 1 else None
    return depth is not None and _last_news(read, read, depth) > read[0].taken_at


def _circles_since(stacks: list[Stack], depth: int, first_at: float, last_at: float) -> float | None:
    """The same for stacks that are all in one call at this depth."""
    read = [stack for stack in stacks if _is_read(stack)]
    if _goes_through(read, depth) or _hides(read, depth) or not _shows(read, depth):
        return None
    since = max(first_at, _last_news(stacks, read, depth))
    still = [stack for stack in read if stack.taken_at >= since]
    enough = len(still) >= ROUND_READINGS and last_at - since >= ROUND_S
    comes_back = _comes_back([stack for stack in stacks if stack.taken_at >= since])
    return since if enough and comes_back and not _gets_on_inside(still, depth) else None


def _gets_on_inside(stacks: list[Stack], depth: int) -> bool:
    """A long call or loop inside the loop makes progress."""
    lately = stacks[-ROUND_READINGS:]
    inner = _loop(lately)
    if inner is not None and inner > depth:
        news = _last_news(lately, lately, inner) > lately[0].taken_at
        if news or _goes_through(lately, inner) or _hides(lately, inner):
            return True
    return _goes_through_lately(lately)


def _is_read(stack: Stack) -> bool:
    """Both the iterator positions and the objects reachable from the variables were read."""
    return stack.turns is not None and stack.contents is not None


def may_go_round(before: Stack, now: Stack) -> bool:
    """Whether two consecutive readings show no progress."""
    if before.turns is None or now.turns is None or not before.frames or not now.frames:
        return False
    depth = _loop([before, now])
    return depth is not None and not _goes_through([before, now], depth)


def _whole(stacks: list[Stack]) -> list[Stack]:
    """Drops torn stacks, read while the thread ran on: their outermost call differs from the majority's."""
    begins = Counter(_call(stack.frames[-1]) for stack in stacks if stack.frames)
    if not begins:
        return []
    (begin, count), *_ = begins.most_common(1)
    whole = [stack for stack in stacks if stack.frames and _call(stack.frames[-1]) == begin]
    return whole if TORN_SHARE * len(stacks) >= len(stacks) - count else []


def _computes(sample: Sample) -> bool:
    """The thread was on a CPU."""
    return sample.on_cpu and sample.stack is not None


def _loop(stacks: list[Stack]) -> int | None:
    """Depth, counted from the outermost, of the first call in which anything changes; `None` unless it is the same call in
    all samples, and user code is on the way to it.
    """
    calls = [stack.frames[::-1] for stack in stacks]
    shallowest = min(map(len, calls))
    same = next((at for at in range(shallowest) if len({_picture(frames[at]) for frames in calls}) > 1), shallowest - 1)
    one_call = len({_call(frames[same]) for frames in calls}) == 1
    return same if one_call and any(is_user(frame.file) for frame in calls[0][: same + 1]) else None


def _comes_back(stacks: list[Stack]) -> bool:
    """The thread jumps back to earlier lines; or, in a loop in which no variable changes, to earlier instructions.

    Long-running native code stays at one place.
    """
    places = [[frame.line for frame in reversed(stack.frames)] for stack in stacks]
    moves = [(before, after) for before, after in pairwise(places) if before != after]
    jumps = len(moves) >= ROUND_MOVES and any(after < before for before, after in moves)
    read = [stack for stack in stacks if _is_read(stack)]
    return jumps or (_is_idle(read) and 2 * sum(bool(stack.turning) for stack in read) > len(read))


def stays_in_native(stacks: Sequence[Stack]) -> bool:
    """The thread is in one native call that holds the GIL: no line and no variable changed, and no reading saw a jump back to
    an earlier instruction, as every short Python loop shows.
    """
    pictures = {tuple(map(_picture, stack.frames)) for stack in stacks}
    return len(pictures) == 1 and not any(stack.turning for stack in stacks)


def backtracks(stacks: Sequence[Stack]) -> bool:
    """The thread stays in one match of a regular expression against a short text: only a pattern whose repeats can divide the
    text among them in ever more ways takes as long as that.
    """
    read = [stack for stack in stacks if stack.contents is not None]
    lengths = {stack.matching for stack in read}
    return (
        len(read) >= MATCHES_SEEN and len(lengths) == 1 and all(map(matches_short_text, read)) and stays_in_native(read)
    )


def matches_short_text(stack: Stack | None) -> bool:
    """The thread was read in a match of a regular expression that should have taken next to no time."""
    return stack is not None and stack.matching is not None and stack.matching <= SHORT_TEXT


def _is_idle(stacks: list[Stack]) -> bool:
    """The loop only polls: no variable changes, not even within one iteration."""
    plain = [[frame.plain for frame in stack.frames if is_user(frame.file)] for stack in stacks]
    return all(values == plain[0] for values in plain) and len({stack.contents for stack in stacks}) == 1


# Iterators


def _goes_through(stacks: list[Stack], depth: int) -> bool:
    """An iterator of the loop advances. A loop's iterator stays on the value stack until the loop ends; one found only in
    some readings is a leftover.
    """
    seen = [
        {turn[0]: turn[1] for turn in stack.turns if turn[2:] == (depth,)}
        for stack in stacks
        if stack.turns is not None
    ]
    for name in set.intersection(*map(set, seen)):
        steps = [after[name] - before[name] for before, after in pairwise(seen)]
        if seen[0][name] == NOT_KNOWN or (min(steps) >= 0 and any(steps)):
            return True
    return False


def _goes_through_lately(stacks: list[Stack]) -> bool:
    """The iterator of a long loop inside the loop advances."""
    rows = [{(turn[0], turn[2]): turn[1] for turn in stack.turns or () if len(turn) > 2} for stack in stacks]
    for name in set.intersection(*map(set, rows)):
        steps = [after[name] - before[name] for before, after in pairwise(rows)]
        if min(steps) >= 0 and sum(step > 0 for step in steps) >= 2:
            return True
    return False


# Variables


def _shows(stacks: list[Stack], depth: int) -> bool:
    """At least one variable of the loop could be read."""
    return any(row[0] == depth for stack in stacks for row in stack.contents or ()) or bool(_plain(stacks, depth))


def _hides(stacks: list[Stack], depth: int) -> bool:
    """A variable of the loop could not be read in most readings."""
    hidden: Counter[int] = Counter()
    for stack in stacks:
        hidden.update(number for place, number, digest in stack.contents or () if (place, digest) == (depth, NOT_KNOWN))
    return any(2 * count > len(stacks) for count in hidden.values())


def _last_news(stacks: list[Stack], read: list[Stack], depth: int) -> float:
    """When the last new value was found, seconds since the epoch; 0 if none was."""
    moments = (_last_new(series) for series in (*_contents(read, depth), *_texts(stacks, depth)))
    return max((*moments, *_counted(stacks, depth)), default=0.0)


def _contents(stacks: list[Stack], depth: int) -> Iterator[list[tuple[float, Hashable]]]:
    """(moment, digest) of each variable of the loop and of the calls around it."""
    series: dict[tuple[int, int], list[tuple[float, Hashable]]] = {}
    for stack in stacks:
        for place, number, digest in stack.contents or ():
            if place <= depth and digest != NOT_KNOWN:
                series.setdefault((place, number), []).append((stack.taken_at, digest))
    yield from series.values()


def _last_new(series: list[tuple[float, Hashable]]) -> float:
    """When a value last appeared after which no older one returned; a repeated value means no news or a torn reading."""
    last_place = {value: at for at, (_, value) in enumerate(series)}
    latest = accumulate((last_place[value] for _, value in series), max)
    return max(
        (moment for last, (at, (moment, _)) in zip(latest, enumerate(series[1:], 1), strict=False) if last < at),
        default=0.0,
    )


def _texts(stacks: list[Stack], depth: int) -> Iterator[list[tuple[float, Hashable]]]:
    """(moment, digest) of each plain variable of the loop that is not a number."""
    for name, rows in _plain(stacks, depth).items():
        if not any((frame.trend or {}).get(name) for _, frame in rows[1:]):
            yield [(moment, (frame.plain or {})[name]) for moment, frame in rows]


def _counted(stacks: list[Stack], depth: int) -> Iterator[float]:
    """When each monotonic number last advanced; one torn reading against the trend is tolerated."""
    for name, rows in _plain(stacks, depth).items():
        signs = [(moment, (frame.trend or {}).get(name, 0)) for moment, frame in rows[1:]]
        counts = Counter(sign for _, sign in signs if sign)
        if counts and min(counts[1], counts[-1]) <= (max(counts.values()) > 2):
            main = counts.most_common(1)[0][0]
            yield max(moment for moment, sign in signs if sign == main)


def _plain(stacks: list[Stack], depth: int) -> dict[str, list[tuple[float, Frame]]]:
    rows = [(stack.taken_at, stack.frames[::-1][depth]) for stack in stacks]
    names = {name for _, frame in rows for name in frame.plain or {}}
    return {name: [row for row in rows if name in (row[1].plain or {})] for name in names}


def _picture(frame: Frame) -> tuple[object, ...]:
    return frame.function, frame.file, frame.line, frame.arguments_digest, frame.locals_digest


def _call(frame: Frame) -> tuple[object, ...]:
    return frame.function, frame.file, frame.arguments_digest
