"""Does the state that a thread's variables lead to change between readings?

A loop that works and sleeps on one line is found at that line by every sample, and the frames of a module's own code
show none of its variables. What these lead to (`Stack.contents`) shows that such a loop counts, fills or empties
something. It also shows for a polling loop that the answer stays the same, though each is an object of its own: a
status file that is read anew, a folder that is listed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from mpmon.diagnosis.frames import asking
from mpmon.diagnosis.progress.pauses import pause_s
from mpmon.diagnosis.shapes import shape
from mpmon.diagnosis.thresholds import LAST_READINGS, PATIENCE_S, RETRY_S
from mpmon.diagnosis.waits import Wait, context
from mpmon.model import CLOCK, Frame, Stack

if TYPE_CHECKING:
    from mpmon.diagnosis.history import Sample

NOT_KNOWN = -1
"""The digest of what cannot be seen."""


def keep_changing(samples: Sequence[Sample]) -> bool:
    """In top-level code; what happens inside a task that does not end is no progress. Nor is what a library counts while
    its own task asks it for something, such as the attempts to get a result.

    The object of a timed wait is left out: it counts its waiters.
    """
    rows = (sample for sample in samples if sample.wait_state.kind is Wait.SLEEP or not _pauses(sample))
    stacks = list(
        {id(sample.stack): sample.stack for sample in rows if sample.stack and sample.stack.contents}.values()
    )
    last = stacks[-LAST_READINGS:]
    if len(last) < 2 or context(last[-1]) is not None or _asks_own_library(last[-1]):
        return False
    return all(_differ(before, after) for before, after in pairwise(last))


def _asks_own_library(stack: Stack) -> bool:
    found = shape(stack)
    return bool(found.asks & found.runs)


def same_answer_since(samples: Sequence[Sample]) -> float | None:
    """Since when a thread, mostly found asleep or in a short timed wait at the same line, has found the same each time,
    seconds since the epoch; `None` if that is not long.
    """
    return _alike_since(samples, _same_answer)


def got_nothing_since(samples: Sequence[Sample]) -> float | None:
    """Since when a thread that mostly waits, for a short time each, for what comes by read(2) has read nothing, and changed
    nothing but the count of its attempts; seconds since the epoch, `None` if that is not long.
    """
    return _alike_since(samples, _got_nothing)


def moved_nothing(samples: Sequence[Sample], since: float) -> bool:
    """All readings of a thread since that moment, two at least, found that it had read and written as much as before: what
    its process did was done by other threads.
    """
    stacks = {id(sample.stack): sample.stack for sample in samples if sample.stack and sample.stack.taken_at >= since}
    moved = [(stack.read, stack.wrote) for stack in stacks.values() if stack.read is not None]
    return len(moved) > 1 and len(set(moved)) == 1


def counters(samples: Sequence[Sample]) -> frozenset[str]:
    """The plain variables of the user's calls that became larger while a thread asked again."""
    frames = (frame for sample in samples if sample.stack for frame in asking(sample.stack))
    return frozenset(name for frame in frames for name, way in (frame.trend or {}).items() if way > 0)


def _alike_since(samples: Sequence[Sample], alike: Callable[[Stack, Stack], bool]) -> float | None:
    naps = [sample.stack for sample in samples if sample.stack and _pauses(sample)]
    if 2 * len(naps) <= len(samples):
        return None
    stacks = list({id(stack): stack for stack in naps}.values())
    since = stacks[-1].taken_at if stacks else 0.0
    for before, after in reversed(list(pairwise(stacks))):
        if not alike(before, after):
            break
        since = before.taken_at
    return since if stacks and stacks[-1].taken_at - since >= PATIENCE_S else None


def _pauses(sample: Sample) -> bool:
    seconds = pause_s(sample.blocked)
    return sample.wait_state.kind is Wait.SLEEP or (seconds is not None and seconds <= RETRY_S)


def _same_answer(before: Stack, after: Stack) -> bool:
    """All that the variables lead to is visible and unchanged; if there was no earlier answer, it may be."""
    inner = len(asking(after)) - 1
    if after.contents is None or any(
        digest == NOT_KNOWN and (number != CLOCK or place == inner) for place, number, digest in after.contents
    ):
        # Further out, a clock is read only once the polling call has returned.
        return False
    same = before.contents is None or set(before.contents) == set(after.contents)
    plain = [frame.plain for frame in asking(before)] == [frame.plain for frame in asking(after)]
    return same and plain and _same_place(before, after)


def _got_nothing(before: Stack, after: Stack) -> bool:
    """The kernel counted no byte that it read, nothing visible changed that its variables lead to, and plain variables only
    grew.
    """
    if after.read is None or before.read != after.read or not _same_place(before, after):
        return False
    return not _differ(before, after) and all(map(_only_grew, asking(before), asking(after)))


def _only_grew(before: Frame, after: Frame) -> bool:
    changed = {name for name, digest in (after.plain or {}).items() if (before.plain or {}).get(name, digest) != digest}
    return all((after.trend or {}).get(name) == 1 for name in changed)


def _same_place(before: Stack, after: Stack) -> bool:
    """The same calls, at the same lines."""
    return list(map(_call, asking(before))) == list(map(_call, asking(after)))


def _call(frame: Frame) -> tuple[object, ...]:
    return frame.function, frame.file, frame.line, frame.arguments_digest


def _differ(before: Stack, after: Stack) -> bool:
    """A variable of the same call leads to something else."""
    known = {(place, number): digest for place, number, digest in before.contents or ()}
    pairs = [(known.get((place, number)), digest) for place, number, digest in after.contents or ()]
    return any(was is not None and NOT_KNOWN not in (was, digest) and was != digest for was, digest in pairs)
