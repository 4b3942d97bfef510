"""What the user wishes folded in the tree, between one key and the next. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpmon.diagnosis.findings import Verdict
from mpmon.tui.describe.naming import kind_of
from mpmon.tui.tables.tree import TROUBLE, Folding, Wish

if TYPE_CHECKING:
    from mpmon.tui.scene import Scene
    from mpmon.tui.tables.process_rows import Row


class Folds:
    """Asked for as much as fits, unless the user wants more or less."""

    def __init__(self) -> None:
        self._wish = Wish.FITTING
        self._folded: frozenset[int] = frozenset()
        self._unfolded: frozenset[int] = frozenset()
        self._apart: frozenset[int] = frozenset()

    def folding(self, scene: Scene, room: int) -> Folding:
        """How to lay out the tree of a scene in so many lines."""
        trouble = {view.pid for view in scene.views.values() if view.mood in TROUBLE}
        hung = scene.diagnosis.verdict is Verdict.HUNG
        return Folding(
            self._wish, self._folded, self._unfolded, self._apart, scene.suspects | trouble, hung=hung, room=room
        )

    def expand(self, row: Row) -> None:
        """Takes those who share a line apart, or unfolds the branch below it."""
        if row.members:
            self._apart |= set(row.members)
        else:
            self._folded -= {row.pid}
            self._unfolded |= {row.pid}

    def collapse(self, row: Row, scene: Scene) -> None:
        """Folds the branch, or puts one that was taken apart back with those that are alike."""
        views = scene.views
        if not row.members and not row.hidden and any(view.parent == row.pid for view in views.values()):
            self._folded |= {row.pid}
            self._unfolded -= {row.pid}
        elif row.pid in self._apart:
            kind, parent = kind_of(row.role).name, views[row.pid].parent
            self._apart -= {v.pid for v in views.values() if v.parent == parent and kind_of(v.role).name == kind}

    def turn(self, *, hides: bool) -> None:
        """Unfolds everything; where nothing is folded now, folds again what does not fit, or, where all fits, what can be."""
        before = self._wish
        self._folded = self._unfolded = self._apart = frozenset()
        if hides:
            self._wish = Wish.FITTING if before is Wish.ALL else Wish.NOTHING
        else:
            self._wish = Wish.ALL if before is Wish.FITTING else Wish.FITTING
