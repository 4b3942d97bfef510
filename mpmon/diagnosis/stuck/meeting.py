"""Ranks that wait for the others to arrive, or for a key of torch's store: which of them look in the wrong place.

If all ranks at the rendezvous wait for each other, the odd ones use another address than most, or another name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import Enum

import msgspec

from mpmon.diagnosis.graph import Ending
from mpmon.diagnosis.ranks.addresses import may_be_the_same, rendezvous_address, store_address
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.snapshot_index import SnapshotIndex
from mpmon.diagnosis.stuck.collectives import differing
from mpmon.diagnosis.stuck.stuck_set import StuckSet
from mpmon.diagnosis.suspects import stands_at


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
    """The ranks at fault; empty if nothing tells."""
    addresses: dict[ThreadKey, str] = {}
    """For ADDRESS, where each of them looks."""
    variable: str = ""
    """For VALUE."""


def meeting(stuck: StuckSet) -> Meeting | None:
    """Why ranks do not meet; `None` for sets in which no rank waits to."""
    waiting = tuple(stuck.members_in(Wait.RENDEZVOUS))
    if not waiting:
        return _key(stuck)
    if stuck.ending not in (Ending.NOBODY, Ending.EXTERNAL, Ending.OPEN, Ending.CYCLE):
        return None
    gathering = _gathering(stuck) or waiting
    return _elsewhere(stuck, gathering) or _with_other_values(stuck, gathering) or Meeting(Missed.OTHERS, waiting)


def _gathering(stuck: StuckSet) -> tuple[ThreadKey, ...]:
    """All ranks that have reached the rendezvous, whether or not they are known to wait for each other; none if two
    have the same number, since these belong to two jobs.
    """
    ranks = ((pid, pid) for pid in stuck.job.ranks)
    found = tuple(key for key in ranks if stuck.wait_state(key).kind is Wait.RENDEZVOUS)
    numbers = [stuck.job.role(pid).rank for pid, _ in found]
    return found if len(set(numbers)) == len(numbers) and None not in numbers else ()


def _elsewhere(stuck: StuckSet, waiting: tuple[ThreadKey, ...]) -> Meeting | None:
    """Ranks that use another address than most, or than rank 0, which serves the store. Once some are seen to look for the store,
    only these count, as the others have found it: at the address of the first of them.
    """
    looking = _addresses(stuck, waiting, store_address)
    addresses = looking or _addresses(stuck, waiting, rendezvous_address)
    if not addresses or (not looking and len(addresses) < len(waiting)):
        return None
    first = min(addresses, key=lambda key: (_rank(stuck, key), key))
    counts = Counter(addresses.values())
    counts[addresses[first]] += len(waiting) - len(addresses)
    right = max(addresses.values(), key=lambda address: (counts[address], address == addresses[first]))
    odd = tuple(key for key, address in addresses.items() if not may_be_the_same(address, right))
    return Meeting(Missed.ADDRESS, waiting, odd, addresses) if odd else None


def _addresses(
    stuck: StuckSet, keys: tuple[ThreadKey, ...], read: Callable[[SnapshotIndex, int], str | None]
) -> dict[ThreadKey, str]:
    return {key: address for key in keys if (address := read(stuck.job, key[0])) is not None}


def _with_other_values(stuck: StuckSet, waiting: tuple[ThreadKey, ...]) -> Meeting | None:
    """Ranks that wait for each other at the same line, some with another value than most. Rank 0 alone serves the
    store, so its values may differ legitimately.
    """
    if len({str(stands_at(stuck.job, key)) for key in waiting}) > 1:
        return None
    ordered = sorted(waiting, key=lambda key: (_rank(stuck, key), key))
    found = differing(ordered, stuck.job)
    if found and [_rank(stuck, key) for key in found[0]] == [0]:
        found = differing(ordered[1:], stuck.job)
    return Meeting(Missed.VALUE, tuple(ordered), tuple(found[0]), variable=found[1]) if found else None


def _key(stuck: StuckSet) -> Meeting | None:
    """Every thread that could set a key of the store waits, for the key or for those that wait for it."""
    waiting = tuple(stuck.members_in(Wait.STORE_KEY))
    # If others wait only for each other, the key comes only after that.
    if not set(waiting) & set(stuck.closed.core) or stuck.ending not in (Ending.OPEN, Ending.CYCLE):
        return None
    others = tuple(key for key in stuck.closed.members if key not in waiting)
    if any(stuck.wait_state(key).kind is Wait.COLLECTIVE for key in others):
        return None
    astray = None if others else _with_other_values(stuck, waiting)
    return astray or Meeting(Missed.KEY, waiting, others or waiting)


def _rank(stuck: StuckSet, key: ThreadKey) -> int:
    number = stuck.job.role(key[0]).rank
    return 1 << 30 if number is None else number
