"""Numbers for ranks that do not say theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mpmon.diagnosis.roles.role import Role
from mpmon.model import Process


def numbered_ranks(alive: Sequence[Process], found: Mapping[int, Role], known: Mapping[int, Role]) -> dict[int, Role]:
    """Numbers for ranks that do not say theirs, if all ranks of the job run here: by LOCAL_RANK, and the last rank
    without a number gets the last number (Lightning starts the others from rank 0 itself, which has no variables).
    Else, as a guess, by their place among the ranks that one process started: if none says its number, or if those that do have
    that of their place, and one of them comes later, so that none before it is gone.
    """
    ranks = {row.pid: found[row.pid] for row in alive if found[row.pid].is_rank}
    size = max((role.world_size or 0 for role in ranks.values()), default=0)
    numbers = {
        pid: number for pid, role in ranks.items()
        if (number := role.local_rank if role.rank is None else role.rank) is not None and not role.guessed
    }  # fmt: skip
    missing = [pid for pid in ranks if pid not in numbers]
    if len(set(numbers.values())) < len(numbers):
        return {}
    left = set(range(size)) - set(numbers.values())
    if len(ranks) == size and len(missing) == len(left) == 1:
        numbers.update(zip(missing, left, strict=True))
        missing = []
    told = {pid: role for pid, role in ranks.items() if role.rank is None and pid in numbers}
    by_place = _guessed_ranks(missing, alive, ranks, {} if numbers else known) if size <= len(ranks) and missing else {}
    last = max(numbers.values(), default=len(ranks))
    fits = all(by_place[pid].rank == number for pid, number in numbers.items() if pid in by_place)
    # What was guessed before any said its number holds no longer, unless the places still tell it.
    refuted = [pid for pid in missing if ranks[pid].guessed and numbers]
    return {
        **{pid: _with_number(role, numbers[pid], size) for pid, role in told.items()},
        **{pid: msgspec.structs.replace(ranks[pid], name="rank ?", rank=None, guessed=False) for pid in refuted},
        **({pid: role for pid in missing if (role := by_place.get(pid)) and (role.rank or 0) < last} if fits else {}),
    }


def _guessed_ranks(
    pids: Sequence[int], alive: Sequence[Process], ranks: Mapping[int, Role], known: Mapping[int, Role]
) -> dict[int, Role]:
    """By place among the ranks of one parent; unchanged if no rank was added since."""
    before = {pid: role for pid in pids if (role := known.get(pid)) and role.guessed and role.is_rank}
    if len(before) == len(pids):
        return before
    if len({role.parent for role in ranks.values()}) > 1:
        return {}
    eldest = sorted((row.start_time, row.pid) for row in alive if row.pid in ranks)
    return {
        pid: msgspec.structs.replace(_with_number(ranks[pid], place, ranks[pid].world_size), guessed=True)
        for place, (_, pid) in enumerate(eldest)
    }


def _with_number(role: Role, number: int, size: int | None) -> Role:
    return msgspec.structs.replace(role, name=f"rank {number}", rank=number, world_size=size or role.world_size)
