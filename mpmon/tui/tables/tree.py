"""In which order processes are listed, with which branches before them, and what of the tree is folded. Pure.

Siblings that are alike may share a line, and a branch in which nobody stands out may hide behind its top, so that what
differs stays in sight.  A job of 8 ranks with 4 DataLoader workers each has 41 processes and more, a screen of 24 lines has
room for some nine.  What a user looks for there are the ranks while all is well, and whoever differs once it hangs:

- *leaves*: workers that are alike share a line;
- *branches*: what hangs below a rank folds into the rank's own line;
- *siblings*: ranks that are alike share a line, with all that hangs below them.

The first of these that fits is taken, and none where all fits.  While nothing is wrong the ranks of a node keep their lines,
though they must be scrolled: all ranks in one line would tell nothing.

Alike are processes of one kind (`rank`, `dataloader worker`).  In a job that hangs they must also do the same, which stands
still there; in one that moves it changes each round, and lines would jump.  Suspects, the dead and the stopped stand out and
are never folded by themselves.

The tree is laid out anew only when a process comes or goes, changes its parent or its role, or another folding is wished
for; `Layout` keeps the last one.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, NamedTuple

from mpmon.diagnosis.memo import others
from mpmon.diagnosis.roles.role import RANK
from mpmon.numerals import numeral
from mpmon.tui.describe.naming import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mpmon.diagnosis.findings import ProcessView

_NUMBER = re.compile(r"([0-9]+)")

TROUBLE = frozenset({"suspect", "dead", "stopped"})
"""Moods that stand out."""

CALM_LINES = 32
"""So many lines a user scrolls through while nothing is wrong: a node has 8 or 16 ranks."""


class Branch(NamedTuple):
    """A place in the tree."""

    pid: int
    prefix: str
    """Lines drawn before the role: "│  ├─ "."""
    hidden: int = 0
    """How many processes are folded below it."""
    members: tuple[int, ...] = ()
    """The processes that share the line, `pid` first; empty when it is the only one."""


class Fold(IntEnum):
    """How much is folded by itself."""

    NOTHING = 0
    LEAVES = 1
    BRANCHES = 2
    SIBLINGS = 3


class Wish(Enum):
    """What the user wants folded."""

    FITTING = "fitting"
    """As much as it takes to fit."""
    NOTHING = "nothing"
    ALL = "all"


class Folding(NamedTuple):
    """How the tree is to be folded."""

    wish: Wish = Wish.FITTING
    folded: frozenset[int] = frozenset()
    """Branches the user folded."""
    unfolded: frozenset[int] = frozenset()
    """Branches the user unfolded."""
    apart: frozenset[int] = frozenset()
    """Processes the user wants on lines of their own."""
    out: frozenset[int] = frozenset()
    """Who stands out."""
    hung: bool = False
    room: int = 0
    """Lines there are; 0 while that is not known."""


def natural(role: str) -> tuple[tuple[int, int | str], ...]:
    """A sort key in which "worker 10" comes after "worker 2"."""
    parts = ((numeral(part), part) for part in _NUMBER.split(role) if part)
    return tuple((1, part) if number is None else (0, number) for number, part in parts)


UNFOLDED = Folding()


def tree(
    views: Mapping[int, ProcessView], folding: Folding = UNFOLDED, fold: Fold = Fold.NOTHING
) -> tuple[Branch, ...]:
    """Branches from the roots down; children by rank and role. Parents in a circle count as roots."""
    children: defaultdict[int | None, list[int]] = defaultdict(list)
    for view in sorted(views.values(), key=_sibling_order):
        children[view.parent if view.parent in views and view.parent != view.pid else None].append(view.pid)
    growth = _Growth(children, views, folding, fold)
    for root in [*children[None], *views]:
        growth.add(root, "", "")
    return tuple(growth.branches)


def fitting(views: Mapping[int, ProcessView], folding: Folding) -> tuple[Branch, ...]:
    """The tree, folded as wished for."""
    if folding.wish is not Wish.FITTING or not folding.room:
        return tree(views, folding, Fold.SIBLINGS if folding.wish is Wish.ALL else Fold.NOTHING)
    for fold in (Fold.NOTHING, Fold.LEAVES, Fold.BRANCHES):
        branches = tree(views, folding, fold)
        calm = fold is Fold.BRANCHES and not folding.hung
        if len(branches) <= max(folding.room, CALM_LINES if calm else 0):
            return branches
    return tree(views, folding, Fold.SIBLINGS)


def _sibling_order(view: ProcessView) -> tuple[object, ...]:
    return (view.rank is None, view.rank or 0, natural(view.role), view.pid)


class _Growth:
    """A tree while it is drawn."""

    def __init__(
        self,
        children: Mapping[int | None, list[int]],
        views: Mapping[int, ProcessView],
        folding: Folding,
        fold: Fold,
    ) -> None:
        self.branches: list[Branch] = []
        self._children = children
        self._views = views
        self._folding = folding
        self._fold = fold
        self._in_sight = with_ancestors(folding.out, views)
        """Those who stand out, and everything they hang below."""
        self._seen: set[int] = set()

    def add(self, pid: int, prefix: str, below: str, members: tuple[int, ...] = ()) -> None:
        """A process and what hangs below it; `below` is what its children draw before their own corner."""
        if pid in self._seen:
            return
        self._seen.update(members or (pid,))
        if members or self._hides(pid, is_root=not prefix):
            hidden = sum(self._hide_below(member) for member in members or (pid,))
            self.branches.append(Branch(pid, prefix, hidden, members))
            return
        self.branches.append(Branch(pid, prefix))
        lines = list(self._lines(self._children.get(pid, [])))
        for line in lines:
            corner, further = ("└─ ", "   ") if line is lines[-1] else ("├─ ", "│  ")
            self.add(line[0], below + corner, below + further, line if len(line) > 1 else ())

    def _hides(self, pid: int, *, is_root: bool) -> bool:
        """Whether what hangs below a process is folded into its line."""
        if pid in self._folding.folded:
            return True
        free = pid not in self._folding.unfolded and pid not in self._in_sight
        return self._fold >= Fold.BRANCHES and free and not is_root

    def _lines(self, siblings: list[int]) -> Iterator[tuple[int, ...]]:
        """Siblings in order, those that share a line together."""
        together: dict[object, list[int]] = {}
        for pid in siblings:
            alone = pid in self._in_sight or pid in self._folding.apart or not self._may_share(pid)
            together.setdefault(pid if alone else self._likeness(pid, frozenset()), []).append(pid)
        return (tuple(pids) for pids in together.values())

    def _may_share(self, pid: int) -> bool:
        is_leaf = not self._children.get(pid) and self._views[pid].kind != RANK
        return self._fold is Fold.SIBLINGS or (self._fold >= Fold.LEAVES and is_leaf)

    def _likeness(self, pid: int, above: frozenset[int]) -> object:
        """Equal for processes that are alike."""
        view = self._views[pid]
        kind = kind_of(view.role).name
        if not self._folding.hung:
            return (kind,)
        below = Counter(
            self._likeness(child, above | {pid}) for child in self._children.get(pid, ()) if child not in above
        )
        return (kind, view.mood, view.does, frozenset(below.items()))

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
        self._folding: Folding | None = None
        self._branches: tuple[Branch, ...] = ()

    def branches(self, views: Mapping[int, ProcessView], folding: Folding) -> tuple[Branch, ...]:
        """The tree of these processes."""
        before, self._views = self._views, tuple(views.values())
        changes = others(before, self._views)
        same = changes is not None and all(
            _placed(old, hung=folding.hung) == _placed(new, hung=folding.hung) for old, new in changes
        )
        if not same or folding != self._folding:
            self._folding, self._branches = folding, fitting(views, folding)
        return self._branches


def _placed(view: ProcessView, *, hung: bool) -> tuple[object, ...]:
    """What of a process its place in the tree depends on."""
    return (view.pid, view.parent, view.role, *((view.mood, view.does) if hung else ()))


def below(pid: int, views: Mapping[int, ProcessView]) -> tuple[int, ...]:
    """The process and everything that hangs below it."""
    children: defaultdict[int | None, list[int]] = defaultdict(list)
    for view in views.values():
        children[view.parent].append(view.pid)
    found = [pid]
    for at in found:
        found += [child for child in children[at] if child not in found]
    return tuple(found)


def with_ancestors(pids: Iterable[int], views: Mapping[int, ProcessView]) -> set[int]:
    """The pids, and everything they hang below."""
    kept: set[int] = set()
    for pid in pids:
        at: int | None = pid
        while at is not None and at not in kept and at in views:
            kept.add(at)
            at = views[at].parent
    return kept
