"""The strongest finding, right below the headline: what is wrong and who must move."""

from __future__ import annotations

from mpmon.tui.describe.finding import in_short, least_lines
from mpmon.tui.line import plain
from mpmon.tui.widgets.panel import TextPanel

MOST = 16
"""Lines at most, however many there are; the page of it has all."""


class FindingPanel(TextPanel, can_focus=False):
    """Says what it would like to say in `wanted`, and says of it what fits."""

    DEFAULT_CSS = """
    FindingPanel { overflow-y: hidden; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.wanted = 1
        """Lines it would like to have."""
        self.least = 1
        """Lines it should have on the smallest screen, whatever the others want."""

    def repaint(self) -> None:
        """The finding in as many lines as there is room."""
        if self.scene is None:
            self.show_rows((plain("looking …", "dim"),))
            return
        width = self.size.width or self.app.size.width
        wanted, least = len(in_short(self.scene, width, MOST)), least_lines(self.scene, width)
        if (wanted, least) != (self.wanted, self.least):
            self.wanted, self.least = wanted, least
            self.refresh(layout=True)
        self.show_rows(in_short(self.scene, width, self.size.height or wanted))
