"""Where the panels of the main screen lie: one below the other, or in two columns on a wide screen.

How high each is, is decided in `heights`, which is asked whenever the screen is laid out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size, Spacing
from textual.layout import Layout, WidgetPlacement
from textual.reactive import var
from textual.widget import Widget

from mpmon.tui.panels.details import DetailsPanel
from mpmon.tui.panels.events import EventsPanel
from mpmon.tui.panels.finding import FindingPanel
from mpmon.tui.panels.gpus import GpusPanel
from mpmon.tui.panels.processes import VAST, ProcessesPanel
from mpmon.tui.panels.queues import QueuesPanel
from mpmon.tui.panels.stack import StackPanel
from mpmon.tui.screens.heights import PRESSING_MAX, Heights, Wants, finding_lines, heights, sides

if TYPE_CHECKING:
    from textual import events

WIDE = 160
"""From this width on processes and queues stand on the left side; stack, details and events on the right; all below the GPUs."""

GUTTER = Spacing(right=1)
"""Between the columns."""

LEFT_PERCENT = 60
"""Of the width, where processes have their histories; stacks are narrow."""


class PanelLayout(Layout):
    """Finding and GPUs on top; below them the others, in two columns where that is wide enough."""

    name: ClassVar[str] = "panels"

    def arrange(
        self,
        parent: Widget,
        children: list[Widget],
        size: Size,
        greedy: bool = True,  # noqa: FBT001, FBT002  as Textual calls it
    ) -> list[WidgetPlacement]:
        """Places the panels that are shown."""
        del greedy
        parent.pre_layout(self)
        calm, found = (parent.calm, parent.found) if isinstance(parent, Panels) else (True, False)
        room = _Room(size.region, _wants(children, size.height), calm, found)
        panels = [child for child in children if not isinstance(child, FindingPanel)]
        large = type(panels[0]) if len(panels) == 1 else None
        _tell_room(panels, room.most_processes(large))
        regions = room.regions(large)
        return [WidgetPlacement(regions[type(child)], NULL_OFFSET, NULL_SPACING, child) for child in children]


class _Room(NamedTuple):
    """The room of all panels, and what they want of it."""

    region: Region
    wants: Wants
    calm: bool
    """Nobody wants to read the stack."""
    found: bool
    """Something is found, whoever has the keys."""

    @property
    def wide(self) -> bool:
        return self.region.width >= WIDE

    def regions(self, large: type[Widget] | None) -> dict[type[Widget], Region]:
        """Where each panel lies; `large` is the only one that is shown."""
        if large:
            top, below = self.region.split_horizontal(self._least_finding())
            return {FindingPanel: top, large: below}
        finding = finding_lines(self.region.height, self.wants, wide=self.wide, calm=self.calm)
        top, below = self.region.split_horizontal(finding)
        share = sides if self.wide else heights
        return {FindingPanel: top, **_regions(below, share(below.height, self.wants, calm=self.calm))}

    def most_processes(self, large: type[Widget] | None) -> int:
        """Lines the processes could have if they wanted all; that does not change with what is selected."""
        left = self.region.height - self._least_finding()
        if large:
            return left
        if self.wide:
            return sides(left, self._all_processes(), calm=self.calm).processes
        return heights(left, self._all_processes(), calm=not self.found).processes

    def _least_finding(self) -> int:
        return finding_lines(self.region.height, self._all_processes(), wide=self.wide, calm=self.calm)

    def _all_processes(self) -> Wants:
        return self.wants._replace(processes=self.region.height)


def _wants(children: list[Widget], room: int) -> Wants:
    """What the panels that are shown ask for."""
    lines = {type(child): child.virtual_size.height for child in children}
    queues = next((child for child in children if isinstance(child, QueuesPanel)), None)
    finding, least = next(
        ((child.wanted, child.least) for child in children if isinstance(child, FindingPanel)), (0, 0)
    )
    wants = Wants(
        lines.get(GpusPanel, 0), lines.get(ProcessesPanel, 0), events=lines.get(EventsPanel, 0), finding=finding,
        finding_least=least,
    )  # fmt: skip
    if queues is None:
        return wants
    most = max(PRESSING_MAX, room // 2) if queues.has_focus else PRESSING_MAX
    pressing = min(queues.wanted if queues.has_focus else queues.pressing, most)
    return wants._replace(queues=queues.wanted, pressing=pressing)


def _regions(room: Region, shares: Heights) -> dict[type[Widget], Region]:
    """Where each panel lies."""
    top, below = room.split_horizontal(shares.gpus)
    if room.width >= WIDE:
        left, right = below.split_vertical(room.width * (LEFT_PERCENT if room.width >= VAST else 50) // 100)
        processes, queues = left.shrink(GUTTER).split_horizontal(shares.processes)
    else:
        processes, below = below.split_horizontal(shares.processes)
        queues, right = below.split_horizontal(shares.queues)
    stack, right = right.split_horizontal(shares.stack)
    details, events = right.split_horizontal(shares.details)
    return {
        GpusPanel: top,
        ProcessesPanel: processes,
        QueuesPanel: queues,
        StackPanel: stack,
        DetailsPanel: details,
        EventsPanel: events,
    }


def _tell_room(children: list[Widget], lines: int) -> None:
    """Tells the processes how many lines they could have, whatever they take now: so they know what to fold."""
    for child in children:
        if isinstance(child, ProcessesPanel):
            child.most_lines = lines


PANEL_LAYOUT = PanelLayout()


class Panels(Widget):
    """Holds the panels."""

    DEFAULT_CSS = """
    Panels { height: 1fr; }
    """

    found: var[bool] = var(default=False)
    """Something is found: its stack matters."""

    read: var[bool] = var(default=False)
    """The stack has the keys."""

    queues: var[bool] = var(default=False)
    """The queues have the keys."""

    @property
    def layout(self) -> Layout:
        """Ours."""
        return PANEL_LAYOUT

    @property
    def calm(self) -> bool:
        """Nobody wants to see a stack now."""
        return not (self.found or self.read)

    def watch_found(self) -> None:
        """Another share for each."""
        self._share_anew()

    def watch_read(self) -> None:
        """Another share for each."""
        self._share_anew()

    def watch_queues(self) -> None:
        """Another share for each."""
        self._share_anew()

    def _share_anew(self) -> None:
        """Only a child's wish for a layout makes Textual forget the last one."""
        for panel in self.children:
            panel.refresh(layout=True)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The keys come to one of the panels, or leave the queues."""
        self.read = isinstance(event.widget, StackPanel)
        self.queues = isinstance(event.widget, QueuesPanel)
