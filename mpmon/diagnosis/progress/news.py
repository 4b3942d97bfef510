"""Whether a task that computes in Python gets anywhere: whether what its loops carry from turn to turn keeps getting new values.

An endless loop carries nothing on, or goes through the same values again. What loops carry tells their source (`Frame.carried`):
a variable that each turn sets anew is none of it, nor is a count that is compared with nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from mpmon.diagnosis.thresholds import LAST_READINGS
from mpmon.model import BY_CLOCK, SOURCE_NOT_KNOWN, Frame, Stack, variable_number


def brings_news(stacks: Sequence[Stack], entry: int) -> bool:
    """Each of the last readings found the loops of the task in a state that none before had found; or one looks at a clock. Where
    too little is known to tell, news is assumed.

    Args:
        stacks: The readings, all of one task.
        entry: Place of the task's first call, counted from the outermost.
    """
    states = [state for stack in stacks if (state := tuple(_state(stack, entry)))]
    clock = any(BY_CLOCK in (frame.carried or ()) for stack in stacks for frame in stack.frames)
    if clock or len(states) < LAST_READINGS:
        return True
    return all(states[at] not in states[:at] for at in range(max(len(states) - LAST_READINGS, 1), len(states)))


def _state(stack: Stack, entry: int) -> Iterator[Hashable]:
    """What the calls of the task that are in a loop carry on, as far as it was read; nothing if none is in one."""
    counted = {(place, number): (rest, sums) for place, number, rest, sums in stack.counts}
    for place, frame in enumerate(reversed(stack.frames)):
        if place >= entry and frame.carried is not None and frame.plain is not None:
            yield frame.function
            yield from _numbers(frame)
            objects = None if frame.carried == SOURCE_NOT_KNOWN else set(map(variable_number, frame.carried))
            for at, number, digest in stack.contents or ():
                if at == place and (objects is None or number in objects):
                    rest, sums = counted.get((place, number), (digest, {}))
                    yield number, rest, tuple(item for item in sorted(sums.items()) if _is_carried(frame, item[0]))


def _numbers(frame: Frame) -> Iterator[Hashable]:
    """The plain variables that are carried on, with the digests of their values."""
    return (item for item in sorted((frame.plain or {}).items()) if _is_carried(frame, item[0]))


def _is_carried(frame: Frame, name: str) -> bool:
    """Also a number that no name leads to may be."""
    return not name or frame.carried == SOURCE_NOT_KNOWN or name in (frame.carried or ())
