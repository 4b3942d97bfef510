"""Lines that frame a screen: the headline at the top, the news below it, the keys at the bottom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from mpmon.tui.line import Line, Span, cells, plain
from mpmon.tui.widgets.lines import TextLines

if TYPE_CHECKING:
    from textual import events

    from mpmon.tui.keys import Label


GAP = "  "
"""Between two keys."""


class Bar(TextLines, can_focus=False):
    """One line that nobody can focus."""

    DEFAULT_CSS = """
    Bar { height: 1; overflow-y: hidden; }
    """

    def show(self, line: Line) -> None:
        """Shows the line; paints nothing when it is the one before."""
        self.show_rows((line,))


class NewsBar(Bar):
    """A line that is there only while there is something to tell."""

    DEFAULT_CSS = """
    NewsBar { display: none; }
    NewsBar.-shown { display: block; }
    """

    def tell(self, news: str, style: str = "warn") -> None:
        """Shows the news; empty takes the line away."""
        self.show(plain(news, style))
        self.set_class(bool(news), "-shown")


class KeyBar(Bar):
    """The most useful keys, or for a moment a notice about what just happened."""

    NOTICE_S = 6.0
    """How long a notice stays."""

    def __init__(self, keys: tuple[Label, ...]) -> None:
        super().__init__()
        self._keys = keys
        self._notice = ""

    def on_mount(self) -> None:
        """The keys."""
        self._show()

    def on_resize(self, event: events.Resize) -> None:
        """As many keys as fit; Textual calls the handler of `Lines` as well."""
        del event
        self._show()

    def notice(self, text: str) -> None:
        """Says something for a few seconds, or until the next key; empty shows the keys again."""
        if text == self._notice:
            return
        self._notice = text
        self._show()
        if text:
            self.set_timer(self.NOTICE_S, lambda: self._forget(text))

    def on_click(self, event: events.Click) -> None:
        """A click on a key does what the key does."""
        if not self._notice and (label := label_at(self._keys, event.x, self.size.width)):
            self.app.call_later(self.app.run_action, label.action)

    def _forget(self, text: str) -> None:
        if self._notice == text:
            self._notice = ""
            self._show()

    def _show(self) -> None:
        self.show(((self._notice, "bold"),) if self._notice else key_line(self._keys, self.size.width))


def label_at(keys: tuple[Label, ...], column: int, width: int) -> Label | None:
    """The key that is drawn there."""
    at = 0
    for label in keys:
        end = at + cell_len(f"{label.key} {label.word}")
        if at <= column < end <= width:
            return label
        at = end + len(GAP)
    return None


def key_line(keys: tuple[Label, ...], width: int) -> Line:
    """Keys and their words, whole ones only."""
    spans: list[Span] = []
    for key, word, _ in keys:
        more: list[Span] = [(GAP if spans else "", ""), (key, "key"), (f" {word}", "")]
        if cells((*spans, *more)) > width:
            break
        spans += more
    return tuple(spans)
