"""The question which job to watch: a list below the prompt, chosen from with the arrows or by number."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import App
from textual.binding import Binding
from textual.widgets import Label, OptionList
from textual.widgets.option_list import Option

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from textual.binding import BindingType
    from textual.widget import Widget

DIGITS = "123456789"


class Rows(OptionList):
    """With the keys of vi as well."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("j", "cursor_down"), Binding("k", "cursor_up")]


class Picker(App[int]):
    """Exits with the index of the chosen row, or with nothing."""

    CSS = """
    Screen, OptionList, Label { background: ansi_default; color: ansi_default; border: none; padding: 0; }
    Screen:inline { height: auto; border: none; }
    OptionList { height: auto; max-height: 20; text-wrap: nowrap; text-overflow: ellipsis; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape,ctrl+c,ctrl+d", "leave", priority=True),
        *(Binding(digit, f"app.take({int(digit) - 1})") for digit in DIGITS),
    ]

    def __init__(self, rows: Sequence[tuple[str, str]]) -> None:
        """What stands on the two lines of each row."""
        # As on the prompt, whatever the terminal's colors are.
        super().__init__(ansi_color=True)
        self._rows = rows

    def compose(self) -> Iterator[Widget]:
        """The question and the rows."""
        yield Label("Which job? Arrows and Enter, or its number; q to leave.")
        yield Rows(*(Option(self._words(number)) for number in range(len(self._rows))))

    def _words(self, number: int) -> Text:
        name, facts = self._rows[number]
        key = DIGITS[number] if number < len(DIGITS) else " "
        return Text.assemble((f"{key}  {name}\n", ""), (f"   {facts}", "dim"))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter, or a click."""
        self.exit(event.option_index)

    def action_take(self, index: int) -> None:
        """By number."""
        if index < len(self._rows):
            self.exit(index)

    def action_leave(self) -> None:
        """Without a choice."""
        self.exit(None)


def pick(rows: Sequence[tuple[str, str]]) -> int | None:
    """The index of the row that the user chooses, if any."""
    return Picker(rows).run(inline=True)
