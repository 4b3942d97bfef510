"""Which of two ranks that wait in different collectives has come further in the program that both run.

A collective is passed by all ranks together. So the one that has come further has left out what the other waits in, unless the
other has gone where only its number takes it (`special`).

The ranks are compared at the first call at which their stacks part. In one function, the later line is further; but if both
lines are in one loop, only where both are in the same turn of it: the positions of the iterators tell. Where they do not, the
one that is in a further loop, there or in a call below, still does what the other has done with: its data lasted longer. In
calls of different functions, the order in which a library makes them tells (`phases`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from mpmon.diagnosis.frames import bare, is_user, own_frames
from mpmon.diagnosis.libraries import PHASES, RANK_WORDS
from mpmon.model import Frame, Stack

FOR, NO_POSITION = "for ", -1


def furthest(stacks: Mapping[str, Stack]) -> str | None:
    """The one of two that has come further; `None` if that cannot be told."""
    if len(stacks) != 2:
        return None
    (one, first), (other, second) = ((name, _Way(stack)) for name, stack in stacks.items())
    told = _compared(first, second) or _compared(first.in_users_code(), second.in_users_code())
    return one if told > 0 else other if told < 0 else None


def special(stacks: Mapping[str, Stack]) -> str | None:
    """The one of two that is where only its number takes it; `None` if that is true of neither, or of both."""
    names = list(stacks)
    inside = {name: set(_about_rank(stacks[name])) for name in names}
    if len(names) != 2 or inside[names[0]] == inside[names[1]]:
        return None
    for name, other in (names, reversed(names)):
        if inside[name] == {True} or inside[other] == {False}:
            return name
    return None


def _about_rank(stack: Stack) -> Iterator[bool]:
    """For each test of the rank's number on the way: whether the number is the one that the test is about."""
    tests = (test for frame in own_frames(stack) if is_user(frame.file) for test in frame.tested)
    return (not test.startswith("not ") for test in tests if any(word in test.lower() for word in RANK_WORDS))


class _Way:
    """Calls of a rank, outermost first."""

    def __init__(self, stack: Stack, frames: Sequence[Frame] | None = None) -> None:
        self._stack = stack
        self.frames = list(own_frames(stack))[::-1] if frames is None else frames

    def in_users_code(self) -> _Way:
        """Those of the user's code alone."""
        return _Way(self._stack, [frame for frame in self.frames if is_user(frame.file)])

    def positions(self, place: int) -> list[int | None]:
        """The positions in the loops of a call, outermost first; `None` where that is not known."""
        frame = self.frames[place]
        at = next(number for number, row in enumerate(self._stack.frames[::-1]) if row is frame)
        own = iter([turn[1] for turn in self._stack.turns or () if turn[2:] == (at,)])
        found = (next(own, NO_POSITION) if row.startswith(FOR) else NO_POSITION for row in frame.loops or ())
        return [position if position >= 0 else None for position in found]

    def is_in_more_loops(self, place: int, common: int) -> bool:
        """Whether it is in loops besides the first `common` ones of a call, there or in a call below."""
        return any(frame.loops for frame in self.frames[place + 1 :]) or len(self.frames[place].loops or ()) > common


def _compared(one: _Way, other: _Way) -> int:
    """Above 0 if the first has come further, below 0 if the second has, 0 if that cannot be told."""
    pairs = list(zip(one.frames, other.frames, strict=False))
    place = sum(1 for _ in takewhile(lambda pair: _call(pair[0]) == _call(pair[1]), pairs))
    if place == len(pairs):
        return 0
    turns = (_by_turns(one.positions(above), other.positions(above)) for above in range(place))
    if told := next(filter(None, turns), 0):
        return told
    if _call(pairs[place][0])[:2] != _call(pairs[place][1])[:2]:
        return _phase(one.frames[place:]) - _phase(other.frames[place:])
    return _in_one_function(one, other, place)


def _in_one_function(one: _Way, other: _Way, place: int) -> int:
    """The same of two calls of a function that are at different lines of it. Of a library's function without a source, nothing
    is known.
    """
    mine, its = one.frames[place], other.frames[place]
    if (mine.loops is None or its.loops is None) and not is_user(mine.file):
        return 0
    common = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(mine.loops or (), its.loops or (), strict=False))
    )
    turns = [row.positions(place)[:common] for row in (one, other)]
    if told := _by_turns(*turns):
        return told
    same_turn = None not in turns[0] and None not in turns[1]
    inner = [row.is_in_more_loops(place, common) for row in (one, other)]
    if common and not same_turn and inner[0] is not inner[1]:
        return inner[1] - inner[0]
    return mine.line - its.line


def _call(frame: Frame) -> tuple[str, str, int]:
    return frame.file, frame.function, frame.line


def _by_turns(one: Sequence[int | None], other: Sequence[int | None]) -> int:
    """By the outermost loop in which the two are at different turns."""
    known = [(a, b) for a, b in zip(one, other, strict=False) if a is not None and b is not None]
    return next((a - b for a, b in known if a != b), 0)


def _phase(frames: Sequence[Frame]) -> int:
    """The place of the first of these calls that a library makes in a known order, 0 if there is none."""
    places = (
        names.index(bare(frame.function)) + 1
        for frame in frames for file, names in PHASES
        if frame.file.endswith(file) and bare(frame.function) in names
    )  # fmt: skip
    return next(places, 0)
