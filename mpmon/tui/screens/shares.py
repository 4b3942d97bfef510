"""How the panels of the main screen share its room: `heights` and `sides` are pure, and the layout asks them whenever it is
laid out.

The finding is on top and always there; what is to be done about it stands there wherever the others can spare the lines.
GPUs, processes and, in a job in trouble, the stack come first.  Queues get lines where something in them matters, where they
have the keys, and where lines are left; the last events only where lines are left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size, Spacing
from textual.layout import Layout, WidgetPlacement
from textual.reactive import var
from textual.widget import Widget

from mpmon.tui.panels.events import EventsPanel
from mpmon.tui.panels.finding import FindingPanel
from mpmon.tui.panels.gpus import GpusPanel
from mpmon.tui.panels.processes import VAST, ProcessesPanel
from mpmon.tui.panels.queues import QueuesPanel
from mpmon.tui.panels.stack import StackPanel

if TYPE_CHECKING:
    from textual import events

WIDE = 160
"""From this width on processes and queues stand on the left side, stack and events on the right one, below the GPUs."""

GUTTER = Spacing(right=1)
"""Between the columns."""

LEFT_PERCENT = 60
"""Of the width, where processes have their histories; stacks are narrow."""

GPUS_AT_LEAST = 9
"""Lines for eight GPUs and a title, where there is room for the others."""

LOW = 20
"""A calm job on a screen so low needs no stack beside its GPUs and processes."""

TITLED = 3
"""A panel of fewer lines says nothing."""

STACK_IN_TROUBLE, PROCESSES_AT_LEAST, ROW_AT_LEAST = 4, 5, 4

STACK_AT_EASE, STACK_WHILE_CALM = 12, 5
"""What a stack has beyond these others may use."""

PRESSING_AT_MOST = 4
"""Lines for queues in trouble, as long as others want the room."""

EVENTS_AT_MOST = 9

STACK_IN_HANG = 7
"""Lines of a stack and its title that come before what else there is to say of the finding.  Not those of the selected
process, or the panels would move with the cursor."""


class Wants(NamedTuple):
    """Lines each panel would like to have; 0 for one that is not there."""

    gpus: int = 0
    processes: int = 0
    queues: int = 0
    pressing: int = 0
    """Lines of the queues for what a person should look at."""
    events: int = 0
    finding: int = 0
    finding_least: int = 0
    """Lines of the finding on the smallest screen, whatever the others want."""


class Heights(NamedTuple):
    """Lines of each panel, from top to bottom."""

    gpus: int
    processes: int
    queues: int
    stack: int
    events: int


def finding_lines(room: int, wants: Wants, *, wide: bool, calm: bool) -> int:
    """Lines of the finding: what it must have, and of what else it wants as much as the others do not need.

    Args:
        room: Lines there are for it and the others.
        wants: Lines they want.
        wide: Processes and stack are side by side.
        calm: Nobody wants to read the stack.
    """
    least = min(wants.finding, max(wants.finding_least, 0 if calm else room // 4))
    stack = STACK_WHILE_CALM if calm else STACK_IN_HANG
    processes = max(wants.processes, ROW_AT_LEAST) + wants.pressing
    others = wants.gpus + (max(processes, stack) if wide else processes + stack)
    return min(room, wants.finding, max(least, room - others))


def heights(room: int, wants: Wants, *, calm: bool) -> Heights:
    """Panels one below the other.

    Args:
        room: Lines there are.
        wants: Lines the panels want.
        calm: Nobody wants to read the stack: nothing is found, and the keys are elsewhere.
    """
    top = _top(room, wants, calm=calm)
    queues = max(0, min(wants.pressing, room - top - PROCESSES_AT_LEAST))
    rest = room - top - queues
    share = rest if calm and wants.gpus and rest < LOW else max(PROCESSES_AT_LEAST, rest * 55 // 100)
    middle = min(max(wants.processes, ROW_AT_LEAST), share, rest)
    if rest - middle < TITLED:
        return Heights(top, rest, queues, 0, 0)
    spare = max(0, rest - middle - (STACK_WHILE_CALM if calm else STACK_AT_EASE))
    more = min(wants.queues - queues, spare) if spare >= TITLED else 0
    events = _or_none(min(wants.events, EVENTS_AT_MOST, spare - more))
    return Heights(top, middle, queues + more, rest - middle - more - events, events)


def sides(room: int, wants: Wants, *, calm: bool) -> Heights:
    """Processes above queues, and beside them the stack above events; what a side does not need stays empty."""
    top = _top(room, wants, calm=calm)
    rest = room - top
    queues = min(wants.queues, max(wants.pressing, rest // 4, rest - wants.processes), rest - min(rest, ROW_AT_LEAST))
    queues = _or_none(queues)
    middle = min(max(wants.processes, ROW_AT_LEAST), rest - queues) if queues else rest
    events = _or_none(min(wants.events, EVENTS_AT_MOST, rest - STACK_AT_EASE))
    return Heights(top, middle, rest - middle, rest - events, events)


def _top(room: int, wants: Wants, *, calm: bool) -> int:
    """Lines of the GPUs."""
    others = min(wants.processes, PROCESSES_AT_LEAST) + (0 if calm else STACK_IN_TROUBLE) + wants.pressing
    return max(0, min(wants.gpus, max(GPUS_AT_LEAST, room * 2 // 5), room - others))


def _or_none(lines: int) -> int:
    return lines if lines >= TITLED else 0


class Shared(Layout):
    """Finding and GPUs on top; below them the others, in two columns where that is wide enough."""

    name: ClassVar[str] = "shared"

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
        wants, wide = _wants(children, size.height), size.width >= WIDE
        panels = [child for child in children if not isinstance(child, FindingPanel)]
        all_processes = wants._replace(processes=size.height)
        least = finding_lines(size.height, all_processes, wide=wide, calm=calm)
        top, below = size.region.split_horizontal(finding_lines(size.height, wants, wide=wide, calm=calm))
        if len(panels) == 1:
            top, below = size.region.split_horizontal(least)
            _tell_room(panels, below.height)
            regions: dict[type[Widget], Region] = {type(panels[0]): below}
        else:
            shares = sides if wide else heights
            at_most = shares(size.height - least, all_processes, calm=calm if wide else not found)
            _tell_room(panels, at_most.processes)
            regions = _regions(below, shares(below.height, wants, calm=calm))
        return [_placed(child, top if isinstance(child, FindingPanel) else regions[type(child)]) for child in children]


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
    most = max(PRESSING_AT_MOST, room // 2) if queues.has_focus else PRESSING_AT_MOST
    pressing = min(queues.wanted if queues.has_focus else queues.pressing, most)
    return wants._replace(queues=queues.wanted, pressing=pressing)


def _regions(room: Region, shares: Heights) -> dict[type[Widget], Region]:
    """Where each panel lies."""
    top, below = room.split_horizontal(shares.gpus)
    if room.width >= WIDE:
        left, right = below.split_vertical(room.width * (LEFT_PERCENT if room.width >= VAST else 50) // 100)
        processes, queues = left.shrink(GUTTER).split_horizontal(shares.processes)
        stack, events = right.split_horizontal(shares.stack)
    else:
        processes, below = below.split_horizontal(shares.processes)
        queues, below = below.split_horizontal(shares.queues)
        stack, events = below.split_horizontal(shares.stack)
    return {GpusPanel: top, ProcessesPanel: processes, QueuesPanel: queues, StackPanel: stack, EventsPanel: events}


def _tell_room(children: list[Widget], lines: int) -> None:
    """Tells the processes how many lines they could have, whatever they take now: so they know what to fold."""
    for child in children:
        if isinstance(child, ProcessesPanel):
            child.most_lines = lines


def _placed(widget: Widget, region: Region) -> WidgetPlacement:
    return WidgetPlacement(region, NULL_OFFSET, NULL_SPACING, widget)


SHARED = Shared()


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
        return SHARED

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
