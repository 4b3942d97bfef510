"""Does code that nobody called on behalf of others go round in circles?

A training loop may compute as long as it likes, and mostly some counter, loop variable or iterator shows that it gets on.
A search that never finds what it looks for computes as well: the calls around it stay what they are, and inside of the
loop nothing gets on: no iterator moves, no local variable has a new value at each look, and it never waits for anything.
That is a strong hint and no proof: what an object counts in its attributes is not seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from mpmon.diagnosis.frames import is_user
from mpmon.diagnosis.waits import context
from mpmon.model import Frame, Stack

if TYPE_CHECKING:
    from mpmon.diagnosis.history import Look

SPAN_S = 6.0
"""Looks must span this long."""

FEWEST = 5
"""Readings of the frames that it takes, with what their `for` loops go through."""

MOST_TORN = 0.34
"""Share of the readings that may be torn."""

NOT_KNOWN = -1
"""The position of an iterator of which nobody knows where it is."""


def round_since(looks: Sequence[Look]) -> float | None:
    """Since when a thread has gone round in circles, seconds since the epoch; `None`: it does not, or too little was seen."""
    computing = list(takewhile(_computes, reversed(looks)))[::-1]
    stacks = _whole(list({id(look.stack): look.stack for look in computing if look.stack}.values()))
    seen = sum(stack.turns is not None for stack in stacks)
    if seen < FEWEST or computing[-1].at - computing[0].at < SPAN_S or context(stacks[-1]):
        return None
    depth = _loop(stacks)
    return None if depth is None or _gets_on(stacks, depth) else computing[0].at


def _whole(stacks: list[Stack]) -> list[Stack]:
    """Without those of which a part was read while the thread ran on: they begin with another call than most."""
    begins = Counter(_call(stack.frames[-1]) for stack in stacks if stack.frames)
    if not begins:
        return []
    (begin, count), *_ = begins.most_common(1)
    whole = [stack for stack in stacks if stack.frames and _call(stack.frames[-1]) == begin]
    return whole if MOST_TORN * len(stacks) >= len(stacks) - count else []


def _computes(look: Look) -> bool:
    """It was on a CPU."""
    runs = look.blocked is None or look.blocked.state == "R" or look.blocked.syscall == "running"
    return runs and look.stack is not None


def _loop(stacks: list[Stack]) -> int | None:
    """Place, from the outermost, of the first call in which anything changes, when it is the same call at all looks."""
    calls = [stack.frames[::-1] for stack in stacks]
    shallowest = min(map(len, calls))
    same = next((at for at in range(shallowest) if len({_picture(frames[at]) for frames in calls}) > 1), shallowest - 1)
    one_call = len({_call(frames[same]) for frames in calls}) == 1
    return same if one_call and any(is_user(frame.file) for frame in calls[0][: same + 1]) else None


def _gets_on(stacks: list[Stack], depth: int) -> bool:
    """In that call an iterator moves, or may, or a variable keeps growing, or is another one at each look."""
    frames = [stack.frames[::-1][depth] for stack in stacks]
    names = {name for frame in frames for name in frame.plain or {}}
    return _goes_through(stacks, depth) or any(_keeps_changing(frames, name) for name in names)


def _goes_through(stacks: list[Stack], depth: int) -> bool:
    """The iterator of a loop stays on the value stack until the loop ends; what is found there at times is a remainder."""
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


def _keeps_changing(frames: list[Frame], name: str) -> bool:
    signs = {(frame.trend or {}).get(name, 0) for frame in frames[1:]}
    if signs in ({1}, {-1}):
        return True
    values = [(frame.plain or {}).get(name) for frame in frames]
    return signs == {0} and len(set(values)) == len(values)


def _picture(frame: Frame) -> tuple[object, ...]:
    return frame.function, frame.file, frame.line, frame.arguments_digest, frame.locals_digest


def _call(frame: Frame) -> tuple[object, ...]:
    return frame.function, frame.file, frame.arguments_digest
