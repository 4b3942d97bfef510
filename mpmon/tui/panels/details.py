"""What else is known of the selected process, where there is room for it; the page with all of it is a key away."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from mpmon.tui.describe.details import in_short
from mpmon.tui.messages import OpenPage
from mpmon.tui.widgets.panel import TITLE_LINES, TextPanel

if TYPE_CHECKING:
    from textual import events


REFRESH_S = 5.0
"""What it says hardly changes: it is made anew so often, or for another process or size."""


class DetailsPanel(TextPanel, can_focus=False):
    """Whole sections of the details page, as many as fit.  While it is not shown nothing is joined for it."""

    TITLE: ClassVar[str] = "details"

    _shown: tuple[object, ...] = ()
    _shown_at = 0.0

    def watch_selected(self) -> None:
        """Another process."""
        if self.is_mounted:
            self.repaint()

    def repaint(self) -> None:
        """The sections of the process now."""
        if self.scene is None or self.selected is None or not self.size.height:
            self._shown = ()
            self.show_rows(())
            return
        shown, at = (self.selected, self.size), self.scene.snapshot.taken_at
        if shown == self._shown and 0 <= at - self._shown_at < REFRESH_S:
            return
        self._shown, self._shown_at = shown, at
        self.show_rows(in_short(self.scene, self.selected, self.size.width, self.size.height - TITLE_LINES))
        self.titled(f"{self.scene.who(self.selected)} · all (Enter)")

    def on_click(self, event: events.Click) -> None:
        """A click opens the page; Textual calls the handler of `Lines` as well."""
        del event
        self.post_message(OpenPage("details", self.selected))
