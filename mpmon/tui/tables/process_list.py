"""Which processes are listed and in which order: as a tree or as a sorted list, all or those that match a filter. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from mpmon.tui import format as fmt
from mpmon.tui.tables.folds import Folds
from mpmon.tui.tables.process_columns import Sort, sorts
from mpmon.tui.tables.process_rows import Row, Rows
from mpmon.tui.tables.rank_classes import elsewhere, nothing_of, with_classes
from mpmon.tui.tables.tags import Tags
from mpmon.tui.tables.tree import Branch, Folding, Layout, with_ancestors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mpmon.diagnosis.findings import ProcessView
    from mpmon.tui.scene import Scene


class ProcessList:
    """What the user asked for, and the rows that it makes of a scene."""

    def __init__(self) -> None:
        self.folds = Folds()
        self.tags = Tags()
        self.filter = ""
        """What a process must have in its role, pid, state, action or command to be listed; empty lists all."""
        self.host = ""
        """The machine whose processes are listed, of a job on several; empty lists those of all."""
        self._layout = Layout()
        self._rows = Rows()
        self._as_list = False
        self._order = 0
        """Number of the order of the list, which goes on counting when the orders come round."""
        self._inverted = False

    def rows(self, scene: Scene, lines: int) -> list[Row]:
        """The rows of a scene; a tree without a filter is folded to so many lines, 0 if that is not known."""
        if self.host:
            return self._at_hand(scene, lines) or [nothing_of(scene, self.host)]
        return with_classes(scene, self._at_hand(scene, lines), self.filter)

    def _views(self, scene: Scene) -> dict[int, ProcessView]:
        """The processes that may be listed."""
        if not self.host:
            return scene.views
        return {pid: view for pid, view in scene.views.items() if scene.hosts.name(pid) == self.host}

    def _at_hand(self, scene: Scene, lines: int) -> list[Row]:
        if self._as_list:
            return self._sorted(scene)
        if not self.filter:
            branches = self._layout.branches(self._views(scene), self.folds.folding(scene, lines))
            return self._rows.of(scene, branches, self.tags.pids(scene))
        kept = set(self.in_sight(scene))
        unfolded = self._layout.branches(self._views(scene), Folding())
        return self._rows.of(scene, (b for b in unfolded if b.pid in kept), self.tags.pids(scene))

    def _sorted(self, scene: Scene) -> list[Row]:
        pids = self.matches(scene) if self.filter else list(self._views(scene))
        order = self._order_of(scene)
        key = cast("Callable[[Row], float]", order.key)
        rows = self._rows.of(scene, (Branch(pid, "") for pid in pids), self.tags.pids(scene))
        return sorted(rows, key=key, reverse=order.largest_first != self._inverted)

    def _order_of(self, scene: Scene) -> Sort:
        orders = _orders(scene)
        return orders[self._order % len(orders)]

    def matches(self, scene: Scene) -> list[int]:
        """Processes that match the filter."""
        wanted = self.filter.casefold()
        return [pid for pid in self._views(scene) if wanted in _searched(scene, pid)]

    def in_sight(self, scene: Scene) -> list[int]:
        """Processes that match, then those that the tree shows above them."""
        found = self.matches(scene)
        return found if self._as_list else [*found, *with_ancestors(found, self._views(scene)).difference(found)]

    def note(self, scene: Scene, rows: Sequence[Row]) -> str:
        """How many there are, and what the user asked for: "41 in 9 lines (*) · 2 tagged · filter rank"."""
        shown = len(self._views(scene))
        count = f"{shown} in {fmt.plural(len(rows), 'line')} (*)" if hides(rows) else str(len(rows))
        parts = [count]
        if self.host:
            parts = [f"{shown if rows and rows[0].pid < 0 else count} on {self.host} (Esc: all hosts)"]
        elif others := elsewhere(scene):
            parts.append(f"{others} more ranks reported")
        if tagged := len(self.tags.pids(scene)):
            parts.append(f"{tagged} tagged")
        if self._as_list:
            parts.append(f"by {self._order_of(scene).name}{', inverted' if self._inverted else ''}")
        if self.filter:
            parts.append(f"filter {self.filter}" if rows else f"nothing matches {self.filter!r}")
        return " · ".join(parts)

    def switch(self) -> None:
        """From tree to list, and back."""
        self._as_list = not self._as_list

    def sort_by(self, further: int) -> None:
        """Sorts by the order so many further; in the tree this makes it a list."""
        if self._as_list:
            self._order += further
        self._as_list = True

    def sort_by_name(self, scene: Scene, name: str) -> None:
        """Sorts by the order of this name, if there is one; inverts where it does so already."""
        names = [order.name for order in _orders(scene)]
        if name not in names:
            return
        before = self._order % len(names) if self._as_list else None
        self._order = names.index(name)
        self._inverted = before == self._order and not self._inverted
        self._as_list = True

    def invert(self) -> None:
        """Turns the order of the list round."""
        self._inverted = not self._inverted


def hides(rows: Sequence[Row]) -> bool:
    """Whether a row stands for more than one process."""
    return any(row.hidden or row.members for row in rows)


def _orders(scene: Scene) -> tuple[Sort, ...]:
    return sorts(gpus=bool(scene.snapshot.gpus), hosts=bool(scene.snapshot.nodes))


def _searched(scene: Scene, pid: int) -> str:
    """The text a filter looks in."""
    view, process = scene.views[pid], scene.processes.get(pid)
    command = " ".join(process.cmdline or ()) if process else ""
    return f"{view.role} {scene.hosts.pid(pid)} {view.mood} {view.does} {command}".casefold()
