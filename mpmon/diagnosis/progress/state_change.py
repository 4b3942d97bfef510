"""Does the state reachable from a thread's variables change between readings?

Every sample finds a loop that works and sleeps on one line at that line, and the frames of module-level code show none of
its variables. The objects reachable from them (`Stack.contents`) show that such a loop counts, fills or empties something.
For a polling loop, they show that the answer stays the same although it is a new object each time: a re-read status file, a
directory listing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise

from mpmon.diagnosis.progress.digests import whole_number
from mpmon.diagnosis.progress.pauses import pause_s
from mpmon.diagnosis.stacks.frames import asking, is_user
from mpmon.diagnosis.stacks.shapes import asks_own_library
from mpmon.diagnosis.stacks.waits import Wait, context
from mpmon.diagnosis.state.history import Sample
from mpmon.diagnosis.thresholds import LAST_READINGS, PATIENCE_S, RETRY_S
from mpmon.model import BY_CLOCK, CLOCK, Frame, Stack, variable_number

NOT_KNOWN = -1
"""The digest of an object that could not be read."""


def keep_changing(samples: Sequence[Sample], *, outside: int | None = None) -> bool:
    """The state changed in each of the last readings. Only top-level code counts: a change inside a task that does not end is
    no progress, nor is a library's own counter while its task asks it for something, such as attempts to get a result, or what
    a library's call changes that only looks for something, such as the buffers of the connection over which it asks.

    Readings in a timed wait other than a sleep are left out: the awaited object counts its waiters.

    Args:
        samples: Those of the thread.
        outside: The place of a call, from the outermost one: what only it and those below it lead to does not count.
    """
    rows = (sample for sample in samples if sample.wait_state.kind is Wait.SLEEP or not _pauses(sample))
    # Of one nap, a single reading counts: nothing changes in it.
    stacks = list({sample.slices: sample.stack for sample in rows if sample.stack and sample.stack.contents}.values())
    last = stacks[-LAST_READINGS:]
    if len(last) < 2 or asks_own_library(last[-1]) or _library_looks(last[-1]):
        return False
    in_task = context(last[-1]) is not None
    return all(
        _differ(before, after, but=_counted(before, after) if in_task else (), outside=outside)
        for before, after in pairwise(last)
    )


def _library_looks(stack: Stack) -> bool:
    """A library's call sleeps in a loop that only looks whether something is there."""
    frames = asking(stack)
    return stack.only_looks and bool(frames) and not is_user(frames[0].file)


def same_answer_since(samples: Sequence[Sample]) -> float | None:
    """Since when a thread that mostly sleeps or is in a short timed wait at the same line has got the same answer each time,
    seconds since the epoch; `None` if that is not long.
    """
    return _alike_since(samples, _same_answer)


def got_nothing_since(samples: Sequence[Sample]) -> float | None:
    """Since when a thread that mostly is in a short timed wait for data to read(2) has read nothing, and changed nothing but
    the count of its attempts; seconds since the epoch, `None` if that is not long.
    """
    only_grow = _only_grow(samples)
    return _alike_since(samples, lambda before, after: _got_nothing(before, after, only_grow))


def _only_grow(samples: Sequence[Sample]) -> set[str]:
    """The plain variables that were seen to grow, and never to shrink."""
    ways = [way for sample in samples for way in _ways(sample.stack)]
    return {name for name, way in ways if way > 0} - {name for name, way in ways if way < 0}


def _ways(stack: Stack | None) -> list[tuple[str, int]]:
    """The plain variables of a stack that differ from the reading before, which may not be among the samples."""
    return [row for frame in (asking(stack) if stack else ()) for row in (frame.trend or {}).items()]


def only_polled_since(samples: Sequence[Sample]) -> float | None:
    """The same for a thread in a loop that only polls, whatever it counts, logs and notes meanwhile, however short that is."""
    stack = samples[-1].stack if samples else None
    polls = stack is not None and (stack.polls_for is not None or stack.keeps_books)
    # The source tells already; what changes is only looked at to see whether somebody else acts.
    return _alike_since(samples, _polls_on, least_s=0.0) if polls else None


def acts_now_and_then(samples: Sequence[Sample]) -> bool:
    """Two readings, one after the other, of a thread that mostly sleeps found different state, or were made in different places;
    where its loop is known, what it only counts makes no difference, unless it is compared with a limit.
    """
    stacks = list({id(sample.stack): sample.stack for sample in samples if sample.stack}.values())
    if any(not _same_place(*pair) for pair in pairwise(stacks)):
        return True
    loop_known = bool(stacks) and stacks[-1].limits is not None
    only_grow = _only_grow(samples) if loop_known else frozenset[str]()
    return any(
        _differ(before, after, but=_counted(before, after) if loop_known else ())
        or any(not _changed(*frames) <= only_grow for frames in zip(asking(before), asking(after), strict=True))
        for before, after in pairwise(stacks)
    ) or (loop_known and may_give_up(samples, stacks[-1].limits))


def _polls_on(before: Stack, after: Stack) -> bool:
    """At the same place, in a sleep, or in a wait with a time limit after which nothing had been read that others sent."""
    brought_nothing = after.tests is not None or (after.read is not None and before.read in (None, after.read))
    return brought_nothing and _same_place(before, after) and not _answers_change(before, after)


def _answers_change(before: Stack, after: Stack) -> bool:
    """What a variable leads to that the loop asks for differs, so that somebody else acts."""
    if before.polls_for != after.polls_for:
        return True
    inner, names = len(asking(after)) - 1, after.polls_for or ()
    asked = set(map(variable_number, names))
    known = {number: digest for place, number, digest in before.contents or () if place == inner}
    pairs = [
        (known.get(number, digest), digest)
        for place, number, digest in after.contents or ()
        if place == inner and number in asked
    ]
    plain = [frame.plain or {} for stack in (before, after) for frame in asking(stack)[:1]]
    texts = [tuple(row.get(name) for name in names) for row in plain]
    return len(set(texts)) > 1 or any(was != now and NOT_KNOWN not in (was, now) for was, now in pairs)


def looked_in_vain_since(samples: Sequence[Sample]) -> float | None:
    """The same for a thread that sleeps in a loop which only looks whether something is there, and counts how often."""
    stack = samples[-1].stack if samples else None
    return retried_in_vain_since(samples) if stack and stack.only_looks and not acts_by_clock(stack) else None


def retried_in_vain_since(samples: Sequence[Sample]) -> float | None:
    """The same for a thread that may retry as often as it likes, whatever it waits for."""
    stack, since = samples[-1].stack if samples else None, got_nothing_since(samples)
    if stack is None or since is None:
        return None
    return None if may_give_up([row for row in samples if row.at >= since], stack.limits) else since


def moved_nothing(samples: Sequence[Sample], since: float, *, writes_only: bool = False) -> bool:
    """At least two readings since that moment, all with the same byte counts of this thread: any I/O of its process was done
    by other threads.
    """
    stacks = {id(sample.stack): sample.stack for sample in samples if sample.stack and sample.stack.taken_at >= since}
    moved = [(None if writes_only else stack.read, stack.wrote) for stack in stacks.values() if stack.wrote is not None]
    return len(moved) > 1 and len(set(moved)) == 1


def may_give_up(samples: Sequence[Sample], limits: Collection[str] | None) -> bool:
    """A thread that polled counted its attempts, and its loop compares what it counted with a limit; also where this is not
    known.

    Args:
        samples: Those of the polling thread.
        limits: `Stack.limits`.
    """
    stacks = [sample.stack for sample in samples if sample.stack]
    trends = (frame.trend or {} for stack in stacks for frame in asking(stack))
    counters = {name for trend in trends for name, way in trend.items() if way > 0}
    for before, after in pairwise(stacks):
        counters.update(*_counted(before, after).values())
    if not counters or limits is None:
        return bool(counters)
    left = {row.partition(" ")[0] for row in limits if not _is_passed(row, stacks[-1])}
    return not counters.isdisjoint(left) or ("" in counters and bool(left))


def _is_passed(limit: str, stack: Stack) -> bool:
    """The variable is beyond the number that it is compared with: one that only grows will not meet it any more."""
    name, _, number = limit.partition(" ")
    digests = (frame.plain[name] for frame in asking(stack) if frame.plain and name in frame.plain)
    return bool(number) and any(
        (value := whole_number(digest)) is not None and value > int(number) for digest in digests
    )


def _alike_since(
    samples: Sequence[Sample], alike: Callable[[Stack, Stack], bool], *, least_s: float = PATIENCE_S
) -> float | None:
    naps = [sample.stack for sample in samples if sample.stack and _pauses(sample)]
    if 2 * len(naps) <= len(samples):
        return None
    stacks = list({id(stack): stack for stack in naps}.values())
    first = next((at for at, stack in enumerate(stacks) if stack.contents is not None), len(stacks))
    stacks = [stack for at, stack in enumerate(stacks) if at < first or not _tells_nothing(stacks, at)]
    since = stacks[-1].taken_at if stacks else 0.0
    for before, after in reversed(list(pairwise(stacks))):
        if not alike(before, after):
            break
        since = before.taken_at
    return since if stacks and stacks[-1].taken_at - since >= least_s else None


def _tells_nothing(stacks: Sequence[Stack], at: int) -> bool:
    """The state was not read at that moment, and was before and after it, at the same place."""
    if not 0 < at < len(stacks) - 1 or stacks[at].contents is not None:
        return False
    return all(_same_place(stacks[at], other) for other in (stacks[at - 1], stacks[at + 1]))


def _pauses(sample: Sample) -> bool:
    seconds = pause_s(sample.blocked)
    return sample.wait_state.kind is Wait.SLEEP or (seconds is not None and seconds <= RETRY_S)


def _same_answer(before: Stack, after: Stack) -> bool:
    """All state reachable from the variables was read and is unchanged; an unread earlier state counts as equal."""
    inner = len(asking(after)) - 1
    if after.contents is None or any(
        digest == NOT_KNOWN and (number != CLOCK or (place == inner and acts_by_clock(after)))
        for place, number, digest in after.contents
    ):
        # Further out, a clock is read only once the polling call has returned.
        return False
    same = before.contents is None or set(before.contents) == set(after.contents)
    plain = [frame.plain for frame in asking(before)] == [frame.plain for frame in asking(after)]
    return same and plain and _same_place(before, after)


def acts_by_clock(stack: Stack) -> bool:
    """The loop of a call that reads a clock does more with it than to log, or its source is not known."""
    return stack.limits is None or BY_CLOCK in stack.limits


def _got_nothing(before: Stack, after: Stack, only_grow: AbstractSet[str]) -> bool:
    """The kernel counted no byte read, and of the readable state reachable from the variables only whole numbers changed,
    which never shrink. What was not yet read before counts as equal.
    """
    unread = before.contents is None and before.read is None
    if after.read is None or not (unread or before.read == after.read) or not _same_place(before, after):
        return False
    counted = _counted(before, after)
    pairs = zip(asking(before), asking(after), strict=True)
    return not _differ(before, after, but=counted) and all(_changed(*pair) <= only_grow for pair in pairs)


def _counted(before: Stack, after: Stack) -> dict[tuple[int, int], set[str]]:
    """For each variable that leads to whole numbers which grew, and to nothing else that changed: the attributes that lead to
    those that grew. Its place and number are the key.
    """
    was = {(place, number): (rest, sums) for place, number, rest, sums in before.counts}
    found: dict[tuple[int, int], set[str]] = {}
    for place, number, rest, sums in after.counts:
        # The machinery's own counts are its affair.
        known = was.get((place, number)) if place < len(asking(after)) else None
        if known and known[0] == rest and known[1].keys() == sums.keys():
            grown = {name for name, value in sums.items() if value > known[1][name]}
            if grown and all(value >= known[1][name] for name, value in sums.items()):
                found[place, number] = grown
    return found


def _changed(before: Frame, after: Frame) -> set[str]:
    """The plain variables that differ."""
    return {name for name, digest in (after.plain or {}).items() if (before.plain or {}).get(name, digest) != digest}


def _same_place(before: Stack, after: Stack) -> bool:
    """The same calls, at the same lines."""
    return list(map(_call, asking(before))) == list(map(_call, asking(after)))


def _call(frame: Frame) -> tuple[object, ...]:
    return frame.function, frame.file, frame.line, frame.arguments_digest


def _differ(before: Stack, after: Stack, *, but: Collection[tuple[int, int]] = (), outside: int | None = None) -> bool:
    """The state reachable from some variable of the same call differs; those in `but`, by place and number, are left out, and
    those of the calls from the one at `outside` on, also where an outer call leads to the same state.
    """
    known = {(place, number): digest for place, number, digest in before.contents or () if (place, number) not in but}
    pairs = [(place, known.get((place, number)), digest) for place, number, digest in after.contents or ()]
    inner = {(was, digest) for place, was, digest in pairs if outside is not None and place >= outside}
    return any(
        was is not None and NOT_KNOWN not in (was, digest) and was != digest and (was, digest) not in inner
        for _, was, digest in pairs
    )
