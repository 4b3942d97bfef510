"""Ranks that wait for the others to come, or for a key of torch's store: which of them look in the wrong place.

Where all that meet wait for each other, those are odd that look at another address than most, or under another name.
"""

from __future__ import annotations

import re
from collections import Counter
from enum import Enum

import msgspec

from mpmon.diagnosis.collectives import differing
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.stuck_set import Ending, StuckSet
from mpmon.diagnosis.waits import Wait

_THIS_MACHINE = re.compile(r"\blocalhost\b|\[?::1\]?(?=:)")
"""Other names of 127.0.0.1."""


class Missed(Enum):
    """Why they do not meet."""

    ADDRESS = "some look for the others at another address"
    VALUE = "some have another value at hand, by which they look under another name"
    KEY = "who could set the key waits for those who wait for it"
    OTHERS = "others have not come"


class Meeting(msgspec.Struct, frozen=True):
    """A set of ranks that do not meet."""

    how: Missed
    waiting: tuple[ThreadKey, ...]
    odd: tuple[ThreadKey, ...] = ()
    """Those to whom it is due; empty where nothing tells."""
    addresses: dict[ThreadKey, str] = {}
    """For ADDRESS, where each of them looks."""
    variable: str = ""
    """For VALUE."""


def meeting(stuck: StuckSet) -> Meeting | None:
    """Why ranks do not meet; `None` of sets in which none waits to."""
    waiting = tuple(stuck.members_in(Wait.RENDEZVOUS))
    if not waiting:
        return _key(stuck)
    if stuck.ending not in (Ending.NOBODY, Ending.EXTERNAL, Ending.OPEN, Ending.CYCLE):
        return None
    gathering = _gathering(stuck) or waiting
    return _elsewhere(stuck, gathering) or _with_other_values(stuck, gathering) or Meeting(Missed.OTHERS, waiting)


def _gathering(stuck: StuckSet) -> tuple[ThreadKey, ...]:
    """All ranks that have come to the rendezvous, whether they are known to wait for each other or not; none where two have
    the same number, since these are of two jobs.
    """
    ranks = ((pid, pid) for pid in stuck.case.ranks)
    found = tuple(key for key in ranks if stuck.standing(key).kind is Wait.RENDEZVOUS)
    numbers = [stuck.case.role(pid).rank for pid, _ in found]
    return found if len(set(numbers)) == len(numbers) and None not in numbers else ()


def _elsewhere(stuck: StuckSet, waiting: tuple[ThreadKey, ...]) -> Meeting | None:
    """Ranks that look for the others at another address than most, or than rank 0, who serves the store."""
    addresses = {key: address for key in waiting if (address := _address(stuck, key[0])) is not None}
    first = min(waiting, key=lambda key: (_rank(stuck, key), key))
    counts = Counter(addresses.values())
    if len(addresses) < len(waiting):
        return None
    right = max(addresses.values(), key=lambda address: (counts[address], address == addresses[first]))
    odd = tuple(key for key, address in addresses.items() if address != right)
    return Meeting(Missed.ADDRESS, waiting, odd, addresses) if odd else None


def _with_other_values(stuck: StuckSet, waiting: tuple[ThreadKey, ...]) -> Meeting | None:
    """Ranks that wait for each other at the same line, some of them with another value at hand than most.  Rank 0 alone serves
    the store, so that it has values of its own by right.
    """
    if len({str(stuck.case.place(key)) for key in waiting}) > 1:
        return None
    ordered = sorted(waiting, key=lambda key: (_rank(stuck, key), key))
    found = differing(ordered, stuck.case)
    if found and [_rank(stuck, key) for key in found[0]] == [0]:
        found = differing(ordered[1:], stuck.case)
    return Meeting(Missed.VALUE, tuple(ordered), tuple(found[0]), variable=found[1]) if found else None


def _key(stuck: StuckSet) -> Meeting | None:
    """Everybody who could set a key of the store waits, for the key or for those who wait for it."""
    waiting = tuple(stuck.members_in(Wait.STORE_KEY))
    # Where others wait for each other and for nobody else, the key only comes after that.
    if not set(waiting) & set(stuck.closed.core) or stuck.ending not in (Ending.OPEN, Ending.CYCLE):
        return None
    others = tuple(key for key in stuck.closed.members if key not in waiting)
    if any(stuck.standing(key).kind is Wait.COLLECTIVE for key in others):
        return None
    astray = None if others else _with_other_values(stuck, waiting)
    return astray or Meeting(Missed.KEY, waiting, others or waiting)


def _rank(stuck: StuckSet, key: ThreadKey) -> int:
    number = stuck.case.role(key[0]).rank
    return 1 << 30 if number is None else number


def _address(stuck: StuckSet, pid: int) -> str | None:
    """Where it looks for the others: the argument of `init_process_group`, else the environment."""
    stack = stuck.case.stacks.get((pid, pid))
    given = (frame.known.get("init_method") for frame in stack.frames if frame.known) if stack else ()
    if (method := next(filter(None, given), None)) and method != "env://":
        return _THIS_MACHINE.sub("127.0.0.1", method)
    kept = stuck.case.processes[pid].environment or {}
    if not {"MASTER_ADDR", "MASTER_PORT"} <= set(kept):
        return None
    return _THIS_MACHINE.sub("127.0.0.1", f"{kept['MASTER_ADDR']}:{kept['MASTER_PORT']}")
