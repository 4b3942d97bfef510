"""The page of the machines: a line each, and below them what is known of the one under the cursor; Enter goes into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from mpmon.tui import format as fmt
from mpmon.tui.describe.hosts import hosts, in_full
from mpmon.tui.keys import APP_KEYS, HOST_KEYS, PAGE_KEYS, Key, bindings, labels, offered
from mpmon.tui.line import Line, plain, text_of_lines
from mpmon.tui.messages import EnterHost
from mpmon.tui.screens.framed import Framed
from mpmon.tui.tables.heading import heading
from mpmon.tui.tables.host_rows import COLUMNS, HostRow, host_rows, line
from mpmon.tui.widgets.panel import Panel, TextPanel

if TYPE_CHECKING:
    from collections.abc import Collection

    from textual.app import ComposeResult
    from textual.binding import BindingType

COPIED_WIDTH = 100


class HostsPanel(Panel[HostRow]):
    """A row for each machine of which each is told."""

    TITLE: ClassVar[str] = "hosts"
    HAS_CURSOR: ClassVar[bool] = True

    def __init__(self, first: str) -> None:
        super().__init__()
        self.host = first
        """The machine under the cursor."""

    def repaint(self) -> None:
        """Those equal to before cost nothing; the cursor stays on its machine."""
        if self.scene is None:
            return
        self.show_rows(host_rows(self.scene))
        names = [row.host for row in self.rows]
        self.titled(fmt.plural(len(names), "machine"), plain(heading(COLUMNS), "dim"))
        self.move_cursor(names.index(self.host) if self.host in names else self.cursor)
        self.cursor_moved()

    def draw_row(self, row: HostRow, width: int) -> Line:
        """One machine."""
        return line(row, width)

    def cursor_moved(self) -> None:
        """What is known of that one is shown below."""
        self.host = self.rows[self.cursor].host if self.rows else ""
        self.screen.query_exactly_one(HostText).tell(self.host)


class HostText(TextPanel):
    """All that is known of one machine."""

    DEFAULT_CSS = """
    HostText { height: auto; max-height: 50%; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._host = ""

    def tell(self, host: str) -> None:
        """Of that one, from now on."""
        self._host = host
        self.repaint()

    def repaint(self) -> None:
        """Its paragraph."""
        if self.scene is not None:
            self.titled(self._host, title="host")
            self.show_rows(in_full(self.scene, self._host, self.size.width or self.app.size.width))


class HostsPage(Framed):
    """All machines fullscreen, under the same headline."""

    AUTO_FOCUS = "HostsPanel"
    table: ClassVar[tuple[Key, ...]] = (*PAGE_KEYS, *HOST_KEYS)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(PAGE_KEYS), *bindings(HOST_KEYS)]

    def __init__(self, first: str, withheld: Collection[str]) -> None:
        """The cursor begins at the machine of that name."""
        super().__init__(labels(offered((*PAGE_KEYS, *HOST_KEYS, *APP_KEYS), withheld), replay=False))
        self._panels = (HostsPanel(first), HostText())

    def body(self) -> ComposeResult:
        """The list, and the one under its cursor."""
        yield from self._panels

    def show_scene(self) -> None:
        """Passes the scene on, to the text first."""
        for panel in reversed(self._panels):
            panel.scene = self.scene

    def copied(self) -> str:
        """What is known of all of them."""
        return text_of_lines(hosts(self.scene, COPIED_WIDTH)) if self.scene else ""

    def action_enter(self) -> None:
        """To the main screen, with the processes of that machine alone."""
        host = self._panels[0].host
        self.dismiss()
        if host:
            self.post_message(EnterHost(host))

    def action_close(self) -> None:
        """Back."""
        self.dismiss()
