"""In which order processes are listed, and with which branches before them. Pure.

The tree is laid out anew only when a process comes or goes, changes its parent or its role, or a branch is folded;
`Layout` keeps the last one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mpmon.diagnosis.findings import ProcessView

_NUMBER = re.compile(r"(\d+)")


class Branch(NamedTuple):
    """A place in the tree."""

    pid: int
    prefix: str
    """Lines drawn before the role: "│  ├─ "."""
    hidden: int = 0
    """How many processes are folded below it."""


def natural(role: str) -> tuple[tuple[int, int | str], ...]:
    """A sort key in which "worker 10" comes after "worker 2"."""
    parts = _NUMBER.split(role)
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in parts if part)


def tree(views: Mapping[int, ProcessView], folded: frozenset[int] = frozenset()) -> tuple[Branch, ...]:
    """Branches from the roots down; children by rank and role. Parents in a circle count as roots."""
    children: defaultdict[int | None, list[int]] = defaultdict(list)
    for view in sorted(views.values(), key=_sibling_order):
        children[view.parent if view.parent in views and view.parent != view.pid else None].append(view.pid)
    growth = _Growth(children, folded)
    for root in [*children[None], *views]:
        growth.add(root, "", "")
    return tuple(growth.branches)


def _sibling_order(view: ProcessView) -> tuple[object, ...]:
    return (view.rank is None, view.rank or 0, natural(view.role), view.pid)


class _Growth:
    """A tree while it is drawn."""

    def __init__(self, children: Mapping[int | None, list[int]], folded: frozenset[int]) -> None:
        self.branches: list[Branch] = []
        self._children = children
        self._folded = folded
        self._seen: set[int] = set()

    def add(self, pid: int, prefix: str, below: str) -> None:
        """A process and what hangs below it; `below` is what its children draw before their own corner."""
        if pid in self._seen:
            return
        self._seen.add(pid)
        own = self._children.get(pid, [])
        if pid in self._folded and own:
            self.branches.append(Branch(pid, prefix, self._hide_below(pid)))
            return
        self.branches.append(Branch(pid, prefix))
        for child in own:
            corner, line = ("└─ ", "   ") if child == own[-1] else ("├─ ", "│  ")
            self.add(child, below + corner, below + line)

    def _hide_below(self, pid: int) -> int:
        """Counts what is folded below a process, and keeps it from being drawn elsewhere."""
        count = 0
        for child in self._children.get(pid, []):
            if child not in self._seen:
                self._seen.add(child)
                count += 1 + self._hide_below(child)
        return count


class Layout:
    """The last tree, kept as long as it holds."""

    def __init__(self) -> None:
        self._views: tuple[ProcessView, ...] = ()
        self._folded: frozenset[int] = frozenset()
        self._branches: tuple[Branch, ...] = ()

    def branches(self, views: Mapping[int, ProcessView], folded: frozenset[int]) -> tuple[Branch, ...]:
        """The tree of these processes."""
        before, self._views = self._views, tuple(views.values())
        same = len(before) == len(views) and all(
            old is new or (old.pid, old.parent, old.role) == (new.pid, new.parent, new.role)
            for old, new in zip(before, self._views, strict=True)
        )
        if not same or folded != self._folded:
            self._folded, self._branches = folded, tree(views, folded)
        return self._branches


def with_ancestors(pids: Iterable[int], views: Mapping[int, ProcessView]) -> set[int]:
    """The pids, and everything they hang below."""
    kept: set[int] = set()
    for pid in pids:
        at: int | None = pid
        while at is not None and at not in kept and at in views:
            kept.add(at)
            at = views[at].parent
    return kept
