"""Which group of ranks does what it should not: the smaller one, or else the one that its way through the program tells."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mpmon.diagnosis.findings import Place
from mpmon.diagnosis.libraries.torch import BACKWARD
from mpmon.diagnosis.ranks.ahead import calls_in_common, furthest, special
from mpmon.diagnosis.stacks.frames import own_frames
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.stuck.collectives.differences import names_of
from mpmon.diagnosis.stuck.stuck_set import StuckSet
from mpmon.diagnosis.suspects import stands_at
from mpmon.model import Stack

BARRIERS = frozenset({"barrier", "monitored_barrier"})
"""Operations that carry no data."""


def odd_ones_out(stuck: StuckSet, groups: dict[str, list[ThreadKey]]) -> tuple[tuple[ThreadKey, ...], str]:
    """The ranks that do something else than most; and why these, where a comparison of their ways told.

    On a tie: of more than two groups, the one whose way through the program parts first from those of all others; not those in
    a backward pass, which every rank reaches in its turn; those that are where only their number takes them; those that have
    come further in the program, for they have passed what the others wait in; those in a barrier, which a rank reaches that
    left the loop early; else the lowest rank, since code behind `if rank == 0` is what usually diverges.
    """
    if (last := _last_of_groups(stuck, groups)) is not None:
        return (last,), ""
    weights = {
        name: sum(stuck.job.world.weight(key[0]) for key in (*keys, *_beside(stuck, keys)))
        for name, keys in groups.items()
    }
    stacks = {name: stack for name, keys in groups.items() if (stack := _own_way(stuck.job, keys[0]))}
    is_tie = len(groups) == 2 and len(set(weights.values())) == 1 and BACKWARD not in groups
    ahead = (special(stacks) or furthest(stacks)) if is_tie else None
    if ahead:
        other = next(keys for name, keys in groups.items() if name != ahead.name)
        odd = groups[ahead.name]
        return tuple(odd), ahead.why(names_of(stuck, odd), names_of(stuck, other))

    shared = calls_in_common(stacks) if len(stacks) > 2 else {}

    def oddness(item: tuple[str, list[ThreadKey]]) -> tuple[int, int, bool, bool, int]:
        name, keys = item
        rank = min((stuck.job.role(key[0]).rank or 0 for key in keys), default=0)
        return weights[name], shared.get(name, 0), name == BACKWARD, name not in BARRIERS, rank

    return tuple(min(groups.items(), key=oddness)[1]), ""


def _last_of_groups(stuck: StuckSet, groups: dict[str, list[ThreadKey]]) -> ThreadKey | None:
    """Where each rank of a smaller group waits for one other rank: the one in a larger group that this leads to, which has passed
    what the smaller groups wait in.
    """
    keys, job = [key for found in groups.values() for key in found], stuck.job
    for end in keys:
        inner = [key for key in keys if key != end and set(job.group_of(key)) < set(job.group_of(end))]
        ones = [targets[0] for key in inner if len(targets := stuck.targets(key)) == 1]
        outer = [key for key in keys if key != end and key not in inner]
        if len(ones) == len(inner) > 1 and not outer and set(ones) <= {end, *inner} and end in ones:
            return end
    return None


def _beside(stuck: StuckSet, keys: Sequence[ThreadKey]) -> list[ThreadKey]:
    """The ranks outside of the core that wait in the same operation of the same group as these, at the same line."""
    job, core = stuck.job, set(stuck.closed.core)
    places = {_place(job, key): key for key in keys}
    outside = (
        key for pid in job.ranks if (key := (pid, pid)) not in core and job.wait_state(key).kind is Wait.COLLECTIVE
    )
    pairs = ((key, places.get(_place(job, key))) for key in outside)
    return [key for key, alike in pairs if alike and job.is_of_group(key, alike) is not False]


def _place(job: JobState, key: ThreadKey) -> tuple[str, Place | None]:
    """The operation that a thread is in, and the line that called it."""
    return job.wait_state(key).operation, stands_at(job, key)


def _own_way(job: JobState, key: ThreadKey) -> Stack | None:
    """The stack of a rank, without the turns of loops in a child of os.fork(): it may be in the loop that started it."""
    stack = job.stacks.get(key)
    if stack and job.is_forked(key[0]) and len(list(own_frames(stack))) == len(stack.frames):
        return msgspec.structs.replace(stack, turns=None)
    return stack
