"""Ranks that send to one rank, or receive from it: whether each one's call meets the opposite one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from mpmon.diagnosis.graph import Ending
from mpmon.diagnosis.libraries.torch_distributed import ASYNCHRONOUS, POINT_TO_POINT
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.collectives.arguments import parted
from mpmon.diagnosis.stuck.collectives.differences import Differs, Split
from mpmon.diagnosis.stuck.stuck_set import StuckSet

_SENDS = frozenset({"send", "isend", "send_object_list"})

_RECEIVES = frozenset({"recv", "irecv", "recv_object_list"})

_ONE_SIDED = POINT_TO_POINT | {ASYNCHRONOUS}


def point_to_point(stuck: StuckSet, groups: dict[str, list[ThreadKey]]) -> Split | None:
    """How sends and receives do not meet; `None` if all of them do, or if the ranks wait in something else."""
    if (end := _gone_on(stuck, groups)) is not None:
        waiting = [key for name, keys in groups.items() if name in _ONE_SIDED for key in keys]
        return Split(Differs.GONE_ON, (end,), groups, others=tuple(waiting))
    if stuck.ending is Ending.CYCLE and all(len(stuck.targets(key)) == 1 for key in stuck.at_end):
        groups = {
            name: found for name, keys in groups.items() if (found := [key for key in keys if key in stuck.at_end])
        }
    how = _directions(groups)
    if how is None or waits_elsewhere(stuck, groups):
        return None
    cycle = tuple(key for keys in groups.values() for key in keys)
    mains = [(pid, pid) for pid in stuck.job.ranks]
    found = parted([key for key in mains if stuck.wait_state(key).operation in _ONE_SIDED], stuck.job)
    if found is None or found[0] not in cycle:
        return Split(how, cycle, groups, others=cycle)
    return Split(how, found[:1], groups, found[1], others=cycle)


def waits_elsewhere(stuck: StuckSet, groups: dict[str, list[ThreadKey]]) -> bool:
    """One of them waits for a single rank, which is in no such operation."""
    those = set(itertools.chain(*groups.values()))
    return any(len(stuck.targets(key)) == 1 and not those.issuperset(stuck.targets(key)) for key in those)


def _directions(groups: dict[str, list[ThreadKey]]) -> Differs | None:
    if not groups or not set(groups) <= _SENDS | _RECEIVES:
        return None
    return Differs.DIRECTION if set(groups) <= _SENDS or set(groups) <= _RECEIVES else Differs.PAIR


def _gone_on(stuck: StuckSet, groups: dict[str, list[ThreadKey]]) -> ThreadKey | None:
    """A rank in a collective for which more ranks wait point to point than are in that collective, or from which one wants to
    receive: it has passed where it should have sent.
    """
    waiting = [key for name, keys in groups.items() if name in _ONE_SIDED for key in keys]
    others = [key for name, keys in groups.items() if name not in _ONE_SIDED for key in keys]
    ends = {_leads_to(stuck, key, waiting) for key in waiting}
    end = next(iter(ends), None)
    calls = [stuck.wait_state(key).operation for key in waiting if end in stuck.targets(key)]
    passed = len(waiting) > len(others) or _RECEIVES.issuperset(calls)
    return end if len(ends) == 1 and end in others and passed else None


def _leads_to(stuck: StuckSet, key: ThreadKey, waiting: list[ThreadKey]) -> ThreadKey | None:
    """The first that waits for nobody point to point, following each rank's only target; `None` if there is none."""
    seen: list[ThreadKey] = []
    while key in waiting:
        target = stuck.targets(key)[0] if len(stuck.targets(key)) == 1 else None
        if not isinstance(target, tuple) or target in seen:
            return None
        seen.append(key)
        key = target
    return key


def meets_nobody(stuck: StuckSet, odd: Sequence[ThreadKey]) -> bool:
    """One of these ranks sends to, or receives from, a rank in a collective, while another one wants the opposite of it."""
    calls = {key: stuck.wait_state(key).operation for key in stuck.closed.core}
    for one in odd:
        opposite = (
            _RECEIVES if calls.get(one) in _SENDS else _SENDS if calls.get(one) in _RECEIVES else frozenset[str]()
        )
        asked = any(call in opposite and one in stuck.targets(key) for key, call in calls.items())
        if asked and not any(
            calls.get(target) in opposite for target in stuck.targets(one) if isinstance(target, tuple)
        ):
            return True
    return False
