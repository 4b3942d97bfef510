"""Who never enters a barrier."""

from __future__ import annotations

from mpmon.diagnosis.roles import WORKERS
from mpmon.diagnosis.stacks.waits import COMES_BY_READING, ENDS_OF_PROCESSES, OUTCOMES, Wait, in_barrier
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.stuck_set import StuckSet


def absent_party(stuck: StuckSet) -> list[ThreadKey]:
    """The parties missing from a barrier: members outside it that run the same function as a process inside it; if there are
    none, all members outside it, such as one that waits for what those inside would send; empty if one outside may wait for
    something that none of those inside would do.
    """
    inside = [key for key in stuck.closed.core if in_barrier(stuck.job.stacks.get(key))]
    outside = [key for key in stuck.closed.core if key not in inside]
    if not stuck.is_mutual or not inside or len({pid for pid, _ in stuck.closed.core}) < 2:
        return []
    if resting := _resting_siblings(stuck, inside):
        return resting
    targets = {stuck.job.role(pid).target for pid, _ in inside} - {None}
    alike = [key for key in outside if stuck.job.role(key[0]).target in targets]
    # Beside a party that is missing, one that waits for messages of those inside may serve them.
    kinds = OUTCOMES if alike else OUTCOMES | COMES_BY_READING
    if all(key in alike or _waits_for_them_alone(stuck, key, inside, kinds) for key in outside):
        return alike or outside
    return []


def _waits_for_them_alone(stuck: StuckSet, key: ThreadKey, inside: list[ThreadKey], kinds: frozenset[Wait]) -> bool:
    kind = stuck.wait_state(key).kind
    return kind in ENDS_OF_PROCESSES or (kind in kinds and set(stuck.targets(key)) <= set(inside))


def _resting_siblings(stuck: StuckSet, inside: list[ThreadKey]) -> list[ThreadKey]:
    """Workers of the same pool or loader as those in the barrier that share it, and wait for work."""
    roles = [stuck.job.role(pid) for pid, _ in inside]
    families = {(role.kind, role.parent) for role in roles if role.kind in WORKERS}
    others = dict.fromkeys(target for key in inside for target in stuck.targets(key) if isinstance(target, tuple))
    alike = [key for key in others if (stuck.job.role(key[0]).kind, stuck.job.role(key[0]).parent) in families]
    return [key for key in alike if stuck.wait_state(key).idle]
