"""How the ranks of a stuck set differ: the most telling difference is tried first, and the first that applies is the answer."""

from __future__ import annotations

from mpmon.diagnosis.libraries.torch import BACKWARD
from mpmon.diagnosis.libraries.torch_distributed import POINT_TO_POINT
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.collectives.arguments import astray, differing, with_another_name, with_another_root
from mpmon.diagnosis.stuck.collectives.differences import Differs, Numbered, Split, numbered, operations
from mpmon.diagnosis.stuck.collectives.odd_ones import odd_ones_out
from mpmon.diagnosis.stuck.collectives.point_to_point import meets_nobody, point_to_point, waits_elsewhere
from mpmon.diagnosis.stuck.stuck_set import StuckSet
from mpmon.diagnosis.suspects import stands_at


def split(stuck: StuckSet) -> Split | None:
    """How ranks that wait for each other differ; `None` for sets without collectives, and if nothing tells."""
    groups = operations(stuck)
    if not groups:
        return None
    return point_to_point(stuck, groups) or _absent(stuck, groups) or _different(stuck, groups)


_FOR_OTHERS = frozenset({
    Wait.STORE_KEY, Wait.RENDEZVOUS, Wait.SOCKET, Wait.QUEUE_GET, Wait.PROCESS_EVENT, Wait.FILE_MARK,
})  # fmt: skip
"""Waits of a rank that only other processes can end."""


def _absent(stuck: StuckSet, groups: dict[str, list[ThreadKey]]) -> Split | None:
    """Ranks that are no longer in a collective."""
    there = tuple(key for keys in groups.values() for key in keys)
    if (elsewhere := _elsewhere(stuck)) and (keeps := _with_locks(stuck, there)):
        return Split(Differs.KEEPS_LOCK, keeps, groups, others=elsewhere)
    absent = tuple(key for key in elsewhere if stuck.wait_state(key).kind in _FOR_OTHERS)
    no_ranks = tuple(key for key in stuck.closed.core if key not in (*there, *elsewhere))
    if not absent or set(stuck.at_end).isdisjoint((*absent, *there)) or _with_locks(stuck, no_ranks):
        # All wait for one that is no rank.
        return None
    if len(absent) > len(there) and all(stuck.wait_state(key).kind is Wait.STORE_KEY for key in absent):
        return Split(Differs.KEY, there, groups, others=absent)
    if not all(_waits_for_stranger(stuck, key) for key in absent):
        return Split(Differs.ELSEWHERE, absent, groups, others=there)
    odd, others = (there, absent) if len(absent) > len(there) else (absent, there)
    return Split(Differs.STRANGER, odd, groups, others=others)


def _elsewhere(stuck: StuckSet) -> tuple[ThreadKey, ...]:
    """The main threads of ranks in the set that are in no collective."""
    mains = (key for key in sorted(stuck.closed.core) if key[0] == key[1] and stuck.job.role(key[0]).is_rank)
    return tuple(key for key in mains if stuck.wait_state(key).kind is not Wait.COLLECTIVE)


def _with_locks(stuck: StuckSet, keys: tuple[ThreadKey, ...]) -> tuple[ThreadKey, ...]:
    """The threads among `keys` that hold a lock another member waits for."""
    needs = (edge for key in stuck.closed.members if (edge := stuck.graph.node(key).edge) and edge.holder_known)
    held = {target for edge in needs for target in edge.targets}
    return tuple(key for key in keys if key in held)


def _waits_for_stranger(stuck: StuckSet, key: ThreadKey) -> bool:
    """The thread waits for a non-rank process of the set, which in turn waits for something that another process provides."""
    pids = [target[0] for target in stuck.targets(key) if isinstance(target, tuple)]
    return bool(pids) and all(
        not stuck.job.role(pid).is_rank and stuck.wait_state((pid, pid)).kind in _FOR_OTHERS for pid in pids
    )


def _different(stuck: StuckSet, groups: dict[str, list[ThreadKey]]) -> Split | None:
    numbers = numbered(stuck)
    if set(groups) <= POINT_TO_POINT and not numbers.evidence and waits_elsewhere(stuck, groups):
        return None
    if len(groups) == 1:
        return _same_name(stuck, groups, numbers)
    odd, why = (numbers.odd, "") if numbers.odd else odd_ones_out(stuck, groups)
    if odd and BACKWARD in groups and set(odd).isdisjoint(groups[BACKWARD]):
        return Split(Differs.LEFT_BACKWARD, odd, groups, numbers=numbers)
    # A non-root rank of a gather, or the root of a broadcast, only sends and may have moved on.
    for keys in groups.values() if not numbers.odd else ():
        if len(keys) > 1 and (found := with_another_root(keys, stuck.job)):
            return Split(Differs.ROOT, tuple(found[0]), groups, found[1], tuple(keys))
    how = Differs.UNMET if meets_nobody(stuck, odd) else Differs.OPERATION
    return Split(how, odd, groups, numbers=numbers, why=why)


def _same_name(stuck: StuckSet, groups: dict[str, list[ThreadKey]], numbers: Numbered) -> Split | None:
    ((name, keys),) = groups.items()
    if numbers.evidence:
        return Split(Differs.NUMBER, numbers.odd, groups, numbers=numbers)
    if named := with_another_name(keys, stuck.job):
        return Split(Differs.NAME, named, groups, name, tuple(keys))
    if found := with_another_root(keys, stuck.job):
        return Split(Differs.ROOT, tuple(found[0]), groups, found[1], tuple(keys))
    odd, waiting = astray(keys, stuck.job)
    if len(odd) > 1:
        # On a tie, those that wait for one of them, and for whom none of them waits, tell which.
        told = astray([*keys, *_behind(stuck, keys)], stuck.job)
        odd, waiting = told if set(told[0]) < set(odd) else (odd, waiting)
    if odd:
        return Split(Differs.GROUP, tuple(odd), groups, others=tuple(waiting))
    if found := differing(keys, stuck.job):
        return Split(Differs.ARGUMENT, tuple(found[0]), groups, found[1])
    if others := _other_threads(stuck, keys):
        everybody = {key[0] for key in others} == {key[0] for key in keys}
        return Split(Differs.THREADS, tuple(keys) if everybody else others, groups, others=others)
    places: dict[str, list[ThreadKey]] = {}
    for key in keys:
        places.setdefault(str(stands_at(stuck.job, key)), []).append(key)
    if len(places) < 2 or name == BACKWARD or _elsewhere(stuck):
        return None
    odd, why = odd_ones_out(stuck, places)
    return Split(Differs.LINE, odd, places, name, why=why)


def _behind(stuck: StuckSet, keys: list[ThreadKey]) -> list[ThreadKey]:
    """Other ranks of the job in the same operation."""
    operation = stuck.wait_state(keys[0]).operation
    mains = ((pid, pid) for pid in stuck.job.ranks if (pid, pid) not in keys)
    waits = ((key, stuck.wait_state(key)) for key in mains)
    return [key for key, state in waits if state.kind is Wait.COLLECTIVE and state.operation == operation]


def _other_threads(stuck: StuckSet, keys: list[ThreadKey]) -> tuple[ThreadKey, ...]:
    """Further threads of these ranks that are in collectives, of the same group as far as is known."""
    pids = {key[0] for key in keys}
    ours = [key for pid in sorted(pids) for key in stuck.job.threads(pid) if key not in keys]
    ours = [key for key in ours if stuck.job.is_of_group(keys[0], key) is not False]
    return tuple(key for key in ours if stuck.wait_state(key).kind is Wait.COLLECTIVE)
