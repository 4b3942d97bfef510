"""The panels of the main screen.

To add one: a file here with a `Panel` subclass, and a line in `PANELS`; its number is the key that goes there.
A panel is given `scene` and `selected` from above and posts messages; panels do not know each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mpmon.tui.panels.processes import ProcessesPanel
from mpmon.tui.panels.stack import StackPanel

if TYPE_CHECKING:
    from mpmon.tui.widgets.panel import Panel

PANELS: tuple[type[Panel[Any]], ...] = (ProcessesPanel, StackPanel)
"""From top to bottom, below the finding, which is always there."""
