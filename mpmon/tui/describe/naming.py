"""Many processes in few words: "rank 0–6", "dataloader worker 0–3 of rank 0–6"."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from mpmon.numerals import numeral
from mpmon.tui import format as fmt

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mpmon.tui.scene import Scene

NUMBERED = re.compile(r"(.*?\D[ -](?:\d+:)*)(\d+)")
"""A role that ends in a number: `rank 3`, `process Producer-2`, `process Process-1:2`."""

PIDS = 3
"""Up to so many processes are named by their pids too."""


class Kind(NamedTuple):
    """A role without its number."""

    name: str
    number: int | None = None


def kind_of(role: str) -> Kind:
    """What a process is, and which of its kind."""
    found = NUMBERED.fullmatch(role)
    number = numeral(found[2]) if found else None
    return Kind(role) if found is None or number is None else Kind(found[1].rstrip(" "), number)


def names_of(scene: Scene, pids: Iterable[int]) -> str:
    """These processes by role and number, with their pids while they are few."""
    members = list(pids)
    if len(members) == 1 and members[0] not in scene.views:
        return scene.who(members[0])
    said = "; ".join(_parts(scene, members))
    return f"{said} ({', '.join(map(scene.hosts.pid, members))})" if len(members) <= PIDS else said


def short_names(scene: Scene, pids: Iterable[int]) -> str:
    """The same without pids, and without whom they work for."""
    kinds: defaultdict[str, list[int | None]] = defaultdict(list)
    for pid in pids:
        kind = kind_of(scene.role(pid))
        kinds[kind.name].append(kind.number)
    return "; ".join(_numbered(name, numbers) for name, numbers in kinds.items())


def _parts(scene: Scene, pids: list[int]) -> list[str]:
    """One phrase for each kind, and for each set of numbers that some ranks have of it."""
    several_ranks = len({view.rank for view in scene.views.values() if view.rank is not None}) > 1
    found: defaultdict[str, defaultdict[int | None, list[int | None]]] = defaultdict(lambda: defaultdict(list))
    for pid in pids:
        kind = kind_of(scene.role(pid))
        owner = scene.rank_of(pid) if several_ranks and not scene.is_rank(pid) else None
        found[kind.name][owner].append(kind.number)
    return [part for name, by_rank in found.items() for part in _of_ranks(name, by_rank)]


def _of_ranks(name: str, by_rank: dict[int | None, list[int | None]]) -> list[str]:
    """Ranks that have the same numbers of a kind, together."""
    alike: defaultdict[str, list[int]] = defaultdict(list)
    for rank, numbers in by_rank.items():
        said = _numbered(name, numbers)
        if rank is None:
            alike[said] = []
        else:
            alike[said].append(rank)
    return [f"{said} of rank {fmt.ranges(sorted(ranks))}" if ranks else said for said, ranks in alike.items()]


def _numbered(name: str, numbers: list[int | None]) -> str:
    """`rank 0–6`; without numbers `resource tracker`, `3 × manager`."""
    known = sorted({number for number in numbers if number is not None})
    if known:
        return f"{name}{'' if name.endswith(('-', ':')) else ' '}{fmt.ranges(known)}"
    return name if len(numbers) == 1 else f"{len(numbers)} × {name}"
