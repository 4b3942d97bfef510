"""Which of two ranks that wait in different collectives has come further in the program that both run.

A collective is passed by all ranks together. So the one that has come further has left out what the other waits in, unless the
other has gone where only its number takes it (`special`).

The ranks are compared at the first call at which their stacks part. In one function, the later line is further; but if both
lines are in one loop, only where both are in the same turn of it: the positions of the iterators tell. Where they do not, the
one that is in a further loop, there or in a call below, still does what the other has done with: its data lasted longer. In
calls of different functions, the order in which a library makes them tells (`phases`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import TypeAlias

import msgspec

from mpmon.diagnosis.libraries import PHASES, RANK_WORDS
from mpmon.diagnosis.stacks.frames import bare, is_user, own_frames
from mpmon.model import Frame, Stack

FOR, NOT, NO_POSITION = "for ", "not ", -1


Why: TypeAlias = "Callable[[str, str], str]"
"""The reason in words, given what to call the one that is ahead, and the other."""


class Ahead(msgspec.Struct, frozen=True):
    """One of two ranks, or groups of ranks."""

    name: str
    why: Why


def furthest(stacks: Mapping[str, Stack]) -> Ahead | None:
    """The one of two that has come further; `None` if that cannot be told."""
    if len(stacks) != 2:
        return None
    (one, first), (other, second) = ((name, _Way(stack)) for name, stack in stacks.items())
    told = _compared(first, second) or _compared(first.in_users_code(), second.in_users_code())
    return Ahead(one if told.lead > 0 else other, told.why) if told else None


def special(stacks: Mapping[str, Stack]) -> Ahead | None:
    """The one of two that is where only its number takes it; `None` if that is true of neither, or of both."""
    names = list(stacks)
    if len(names) != 2:
        return None
    tests = {name: set(_about_rank(stacks[name])) for name in names}
    common = tests[names[0]] & tests[names[1]]
    inside = {name: {holds for _, _, holds in rows - common} for name, rows in tests.items()}
    if inside[names[0]] == inside[names[1]]:
        return None
    for name, other in (names, reversed(names)):
        if inside[name] == {True}:
            return Ahead(
                name, lambda this, _: f"only {this} can get there: a test of the rank's number guards that place"
            )
        if inside[other] == {False}:
            return Ahead(
                name,
                lambda this, there: f"a test of the rank's number keeps {this} from getting to where {there} is",
            )
    return None


def calls_in_common(stacks: Mapping[str, Stack]) -> dict[str, int]:
    """How many of the outermost calls each has in common with the one that is the most like it."""
    ways = {name: _Way(stack).frames for name, stack in stacks.items()}
    return {
        name: max((_in_common(way, other) for one, other in ways.items() if one != name), default=0)
        for name, way in ways.items()
    }


def _in_common(one: Sequence[Frame], other: Sequence[Frame]) -> int:
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: _call(pair[0]) == _call(pair[1]), pairs))


def _about_rank(stack: Stack) -> Iterator[tuple[str, str, bool]]:
    """Each test of the rank's number on the way: the function, the name, and whether the number is the one it is about."""
    for frame in own_frames(stack):
        for test in frame.tested if is_user(frame.file) else ():
            name = test.removeprefix(NOT)
            if name.lower().strip("_") in RANK_WORDS:
                yield frame.function, name, name == test


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
        loops = [row.startswith(FOR) for row in frame.loops or ()]
        own = [turn[1] for turn in self._stack.turns or () if turn[2:] == (at,)]
        if len(own) < sum(loops) or (frame.function.startswith("<") and frame.function != "<module>"):
            # Some loops keep no iterator there, and a comprehension has one of its own.
            return [None] * len(loops)
        found = iter(own)
        positions = (next(found) if is_for else NO_POSITION for is_for in loops)
        return [position if position >= 0 else None for position in positions]

    def is_in_more_loops(self, place: int, common: int) -> bool:
        """Whether it is in loops besides the first `common` ones of a call, there or in a call below."""
        return any(frame.loops for frame in self.frames[place + 1 :]) or len(self.frames[place].loops or ()) > common


def _unsaid(_this: str, _other: str) -> str:
    return ""


class _Lead(msgspec.Struct, frozen=True):
    """How much further the first of two has come: negative if the second has."""

    lead: int
    why: Why = _unsaid

    def __bool__(self) -> bool:
        return self.lead != 0


_UNKNOWN = _Lead(0)


def _compared(one: _Way, other: _Way) -> _Lead:
    pairs = list(zip(one.frames, other.frames, strict=False))
    place = _in_common(one.frames, other.frames)
    if place == len(pairs):
        return _UNKNOWN
    turns = (_by_turns(one, other, above) for above in range(place))
    if told := next(filter(None, turns), None):
        return told
    if _call(pairs[place][0])[:2] != _call(pairs[place][1])[:2]:
        return _by_phases(one.frames[place:], other.frames[place:])
    return _in_one_function(one, other, place)


def _in_one_function(one: _Way, other: _Way, place: int) -> _Lead:
    """Of two calls of a function that are at different lines of it; unknown for a library's function without a source."""
    mine, its = one.frames[place], other.frames[place]
    if (mine.loops is None or its.loops is None) and not is_user(mine.file):
        return _UNKNOWN
    if told := _by_turns(one, other, place):
        return told
    common = _common_loops(mine, its)
    same_turn = None not in one.positions(place)[:common]
    inner = [row.is_in_more_loops(place, common) for row in (one, other)]
    if common and not same_turn and inner[0] is not inner[1]:
        return _Lead(inner[1] - inner[0], lambda this, other: f"{this} has left a loop that {other} is still in")
    name = bare(mine.function)
    return _Lead(mine.line - its.line, lambda this, other: f"{this} is at a later line of {name} than {other}")


def _common_loops(one: Frame, other: Frame) -> int:
    """How many loops both are in."""
    pairs = zip(one.loops or (), other.loops or (), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _by_turns(one: _Way, other: _Way, place: int) -> _Lead:
    """By the outermost loop around a call in which the two are at different turns."""
    common = _common_loops(one.frames[place], other.frames[place])
    loops = (one.frames[place].loops or ())[:common]
    for loop, mine, its in zip(loops, one.positions(place), other.positions(place), strict=False):
        if mine is not None and its is not None and mine != its:
            where = f"{one.frames[place].file.rpartition('/')[2]}:{loop.removeprefix(FOR)}"
            return _Lead(mine - its, partial(_turns_in_words, max(mine, its), min(mine, its), where))
    return _UNKNOWN


def _turns_in_words(later: int, earlier: int, where: str, this: str, other: str) -> str:
    return f"in the loop at {where}, {this} came to {later}, {other} to {earlier}"


def _call(frame: Frame) -> tuple[str, str, int]:
    return frame.file, frame.function, frame.line


def _by_phases(one: Sequence[Frame], other: Sequence[Frame]) -> _Lead:
    """By the first calls of both that a library makes in a known order."""
    for file, names in PHASES:
        found = [
            next((bare(row.function) for row in rows if row.file.endswith(file) and bare(row.function) in names), "")
            for rows in (one, other)
        ]
        if all(found):
            places = [names.index(name) for name in found]
            return _Lead(
                places[0] - places[1],
                partial(_phases_in_words, names[max(places)], names[min(places)]),
            )
    return _UNKNOWN


def _phases_in_words(later: str, earlier: str, this: str, other: str) -> str:
    return f"{this} is in {later}, which comes after {earlier}, where {other} is"
