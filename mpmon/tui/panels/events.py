"""The last things that happened, where there is room for them; the page of all events is a key away."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from mpmon.diagnosis.findings import Event
from mpmon.tui.describe.events import in_a_line
from mpmon.tui.messages import OpenPage
from mpmon.tui.widgets.panel import Panel

if TYPE_CHECKING:
    from textual import events

    from mpmon.tui.line import Line


class EventsPanel(Panel[Event], can_focus=False):
    """The newest at the bottom. Not there while nothing has happened."""

    TITLE: ClassVar[str] = "events"

    def __init__(self) -> None:
        super().__init__()
        self.follows = True
        self.set_absent(absent=True)

    def repaint(self) -> None:
        """One line each."""
        if self.scene is None:
            return
        found = self.scene.observation.events
        self.set_absent(absent=not found)
        self.show_rows(found)
        self.titled("all (l)")

    def draw_row(self, row: Event, width: int) -> Line:
        """What happened, cut at the edge."""
        return in_a_line(row, width)

    def on_click(self, event: events.Click) -> None:
        """A click opens the page; Textual calls the handler of `Lines` as well."""
        del event
        self.post_message(OpenPage("events"))
