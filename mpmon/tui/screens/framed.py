"""What all screens share: the headline, the news below it, and the line of keys at the bottom."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual.reactive import var
from textual.screen import Screen

from mpmon.tui.describe.headline import headline
from mpmon.tui.widgets.bars import Bar, KeyBar, NewsBar

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

    from mpmon.tui.keys import Key, Label
    from mpmon.tui.line import Line
    from mpmon.tui.scene import Scene


class Display(NamedTuple):
    """What the app knows besides the scene."""

    source: str
    """Where pictures come from, e.g. "pid 4100"."""
    live: bool = True
    marks: tuple[str, ...] = ()
    """Words on the state of the display, such as "paused"."""
    news: str = ""
    """One line to tell: the watch ended or failed, or a probe has a problem; empty when all is well."""
    about: str = ""
    """One line on what is watched, while there are no news."""


class Framed(Screen[None]):
    """Set `scene` and `display`; a subclass composes its body between `head` and `keys`."""

    scene: var[Scene | None] = var(None)
    display_state: var[Display] = var(Display(""))

    table: ClassVar[tuple[Key, ...]] = ()
    """Keys of this screen, for the palette."""

    def __init__(self, keys: tuple[Label, ...]) -> None:
        super().__init__()
        self.head = Bar()
        self.news = NewsBar()
        self.keys = KeyBar(keys)

    def compose(self) -> ComposeResult:
        """The frame around the body."""
        yield self.head
        yield self.news
        yield from self.body()
        yield self.keys

    def body(self) -> ComposeResult:
        """What lies between."""
        yield from ()

    def show_scene(self) -> None:
        """Passes the scene on to what is in the body."""

    def watch_scene(self) -> None:
        """Another scene came down."""
        if self.is_mounted:
            self.show_scene()
            self._show_head()

    def watch_display_state(self) -> None:
        """Another state of the display."""
        if self.is_mounted:
            self._show_head()

    def on_mount(self) -> None:
        """What was set before there was anything to show it with."""
        self.show_scene()
        self._show_head()

    def on_resize(self, event: events.Resize) -> None:
        """The headline fills the width."""
        del event
        self._show_head()

    def on_key(self) -> None:
        """Whoever presses a key has read the notice; what the key does may say another thing."""
        self.keys.notice("")

    def copied(self) -> str:
        """The text a copy takes from here; empty for that of the report."""
        return ""

    def notice(self, text: str) -> None:
        """Says something for a few seconds."""
        self.keys.notice(text)

    def _show_head(self) -> None:
        self.head.show(self._headline())
        news, about = self.display_state.news, self.display_state.about
        self.news.tell(news or about, "warn" if news else "dim")

    def _headline(self) -> Line:
        state = self.display_state
        if self.scene is None:
            return ((state.source, "bold"), (" · looking …", "dim"))
        source = "" if state.live and not self.scene.hosts else state.source
        return headline(self.scene, self.size.width, source=source, live=state.live, marks=state.marks)
