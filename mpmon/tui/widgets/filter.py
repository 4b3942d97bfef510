"""The line that takes a filter while the user types it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Horizontal
from textual.widgets import Input, Label

if TYPE_CHECKING:
    from textual.app import ComposeResult


class FilterLine(Horizontal):
    """Says what the text beside it is for; the field posts `Input.Changed` and `Input.Submitted`."""

    DEFAULT_CSS = """
    FilterLine { height: 1; }
    FilterLine Label { text-style: bold; }
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.field = Input(text, placeholder="role, pid, state, command (Enter keeps it, Esc clears it)")
        self.field.cursor_blink = False

    def compose(self) -> ComposeResult:
        """The word, and the field."""
        yield Label("filter: ")
        yield self.field
