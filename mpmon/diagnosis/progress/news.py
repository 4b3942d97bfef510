"""Whether a task that computes in Python gets anywhere: whether what its loops carry from turn to turn keeps getting new values.

An endless loop carries nothing on, or goes through the same values again. What loops carry tells their source (`Frame.carried`):
a variable that each turn sets anew is none of it, nor is a count that is read nowhere. Whatever was not read counts as news.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise

from mpmon.diagnosis.progress.loop_progress import NOT_KNOWN
from mpmon.diagnosis.thresholds import LAST_READINGS
from mpmon.model import BY_CLOCK, ONLY_COUNTED, UNSEEN, Frame, Stack, variable_number


def brings_news(stacks: Sequence[Stack], entry: int) -> bool:
    """Each of the last readings found the loops of the task in a state that none before had found; or one looks at a clock, or is
    still in a turn that takes long. Where too little is known to tell, news is assumed.

    Args:
        stacks: The readings, all of one task.
        entry: Place of the task's first call, counted from the outermost.
    """
    read = [stack for stack in stacks if any(frame.carried is not None for frame in stack.frames)]
    states = [_state(stack, entry) for stack in read]
    if len(read) < LAST_READINGS or None in states[-LAST_READINGS:] or not _turns(read[-LAST_READINGS:]):
        return True
    known = [state for state in states if state is not None]
    return all(known[at] not in known[:at] for at in range(max(len(known) - LAST_READINGS, 1), len(known)))


def _state(stack: Stack, entry: int) -> tuple[Hashable, ...] | None:
    """What the calls of the task that are in a loop carry on; `None` if not all of that was read."""
    found: list[Hashable] = []
    for place, frame in enumerate(reversed(stack.frames)):
        if place >= entry and frame.carried is not None:
            if UNSEEN in frame.carried or BY_CLOCK in frame.carried:
                return None
            values = [_value(stack, place, frame, name) for name in frame.carried if not name.startswith(ONLY_COUNTED)]
            if None in values:
                return None
            found.append((frame.function, *values))
    return tuple(found) or None


def _value(stack: Stack, place: int, frame: Frame, name: str) -> Hashable:
    """A digest of a variable, and of what it leads to but counts that are read nowhere; `None` if it was not read."""
    if frame.plain and name in frame.plain:
        return frame.plain[name]
    number = variable_number(name)
    for at, which, rest, sums in stack.counts:
        if (at, which) == (place, number):
            left_out = frame.carried or ()
            return rest, tuple(item for item in sorted(sums.items()) if f"{ONLY_COUNTED}{item[0]}" not in left_out)
    digests = (row[2] for row in stack.contents or () if row[:2] == (place, number))
    return next((digest for digest in digests if digest != NOT_KNOWN), None)


def _turns(stacks: Sequence[Stack]) -> bool:
    """Between these readings the innermost loop has begun new turns, as far as it was in the middle of one at all."""
    return all(_has_turned(before, after) for before, after in pairwise(stacks))


def _has_turned(before: Stack, after: Stack) -> bool:
    was, now = _innermost_loop(before), _innermost_loop(after)
    at, frame = now
    if was[0] != at or at == len(after.frames) - 1 or at in after.turning:
        return True
    old = was[1]
    bound = (old.locals_digest, old.arguments_digest, old.plain) != (
        frame.locals_digest,
        frame.arguments_digest,
        frame.plain,
    )
    return bound or frame.line < old.line


def _innermost_loop(stack: Stack) -> tuple[int, Frame]:
    """The innermost call that is in a loop, and its place, counted from the outermost."""
    rows = [(place, frame) for place, frame in enumerate(reversed(stack.frames)) if frame.carried is not None]
    return rows[-1]
