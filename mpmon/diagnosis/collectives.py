"""Which rank is in which collective, from frames: the ground the rules about ranks share."""

from __future__ import annotations

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.knot import Ending, Knot
from mpmon.diagnosis.waits import BACKWARD, Wait, user_lines


def operations(knot: Knot) -> dict[str, list[ThreadKey]]:
    """The ranks of a knot by the operation they stand in; empty unless they wait for each other in collectives."""
    if knot.ending not in (Ending.CYCLE, Ending.OPEN):
        return {}
    groups: dict[str, list[ThreadKey]] = {}
    for key in sorted(knot.closed.members):
        if knot.standing(key).kind is Wait.COLLECTIVE:
            groups.setdefault(knot.standing(key).words, []).append(key)
    return groups


def odd_ones_out(knot: Knot, groups: dict[str, list[ThreadKey]]) -> list[ThreadKey]:
    """The ranks that do something else than most.

    Where it is a draw: not those in a backward pass, which every rank does in its turn; else the lowest rank, since code
    behind `if rank == 0` is what goes astray.
    """

    def oddness(item: tuple[str, list[ThreadKey]]) -> tuple[int, bool, int]:
        name, keys = item
        rank = min((knot.case.role(key[0]).rank or 0 for key in keys), default=0)
        return len(keys), name == BACKWARD, rank

    return min(groups.items(), key=oddness)[1]


def differing(keys: list[ThreadKey], case: Case) -> tuple[list[ThreadKey], str] | None:
    """Of ranks at the same line, those that are there with another value than most, and the name of the variable.

    Values that differ on every rank, such as its number, say nothing.
    """
    frames = {key: next(iter(user_lines(stack)), None) for key in keys if (stack := case.stacks.get(key))}
    values = {key: frame.plain for key, frame in frames.items() if frame and frame.plain}
    if len(values) < len(keys) or len(keys) < 3:
        return None
    for name in sorted(set.intersection(*(set(plain) for plain in values.values()))):
        groups: dict[int, list[ThreadKey]] = {}
        for key, plain in values.items():
            groups.setdefault(plain[name], []).append(key)
        fewest = min(groups.values(), key=len)
        if len(groups) == 2 and 2 * len(fewest) < len(keys):
            return fewest, name
    return None
