"""The strongest finding, right below the headline: what is wrong and who must move."""

from __future__ import annotations

from mpmon.tui.describe.finding import in_short
from mpmon.tui.line import Line, clip, plain
from mpmon.tui.widgets.panel import Panel

SMALL, LARGE = 6, 12
"""Lines at most on a small and on a large terminal."""


class FindingPanel(Panel[Line], can_focus=False):
    """As high as what it says, up to a quarter of the screen."""

    DEFAULT_CSS = """
    FindingPanel { height: 1; overflow-y: hidden; }
    """

    def repaint(self) -> None:
        """The finding in as many lines as there is room."""
        if self.scene is None:
            self.show_rows((plain("looking …", "dim"),))
            return
        screen = self.screen.size
        most = min(LARGE, max(SMALL, screen.height // 4))
        lines = in_short(self.scene, self.size.width or screen.width, most)
        if self.styles.height is None or self.styles.height.value != len(lines):
            self.styles.height = len(lines)
        self.show_rows(lines)

    def draw_row(self, row: Line, width: int) -> Line:
        """The line as it is."""
        return clip(row, width)
