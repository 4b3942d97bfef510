"""The panels of the main screen.

To add one: a file here with a `Panel` subclass, a line in `PANELS`, and its room in `screens/heights` and `screens/layout`;
its position among the visible focusable panels is the key that selects it.
A panel receives `scene` and `selected` from its screen and posts messages; panels do not know each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mpmon.tui.panels.details import DetailsPanel
from mpmon.tui.panels.events import EventsPanel
from mpmon.tui.panels.gpus import GpusPanel
from mpmon.tui.panels.processes import ProcessesPanel
from mpmon.tui.panels.queues import QueuesPanel
from mpmon.tui.panels.stack import StackPanel

if TYPE_CHECKING:
    from mpmon.tui.widgets.panel import Panel

PANELS: tuple[type[Panel[Any]], ...] = (GpusPanel, ProcessesPanel, QueuesPanel, StackPanel, DetailsPanel, EventsPanel)
"""From top to bottom, below the finding, which is always there and is no place to go to."""
