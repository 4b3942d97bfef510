"""The dialog that sends signals: choose one, see exactly who gets it, confirm, and hear who is still there.

Cancel is where the cursor stands in both steps, and only Enter goes on.  The processes are those of the moment it was opened;
each is known by its pid and its start time, so that a later process with the same pid gets nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.message import Message

from mpmon.tui.background import in_background
from mpmon.tui.describe import signals as describe
from mpmon.tui.describe.signals import CANCEL, CLOSE, SIGNALS, Choice
from mpmon.tui.keys import APP_KEYS, SIGNAL_KEYS, bindings, labels
from mpmon.tui.line import Line, plain, text_of_lines
from mpmon.tui.screens.framed import Framed
from mpmon.tui.screens.pages import Subject, Text
from mpmon.tui.widgets.panel import Panel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from mpmon.model import Process
    from mpmon.signals import Outcome
    from mpmon.tui.keys import Key
    from mpmon.tui.scene import Scene


class Choices(Panel[Choice]):
    """Lines of which one is chosen."""

    HAS_CURSOR: ClassVar[bool] = True

    DEFAULT_CSS = """
    Choices { height: auto; max-height: 60%; }
    """

    def offer(self, title: str, *choices: Choice) -> None:
        """Puts the cursor on the first, which does nothing that cannot be undone."""
        self.show_rows(choices)
        self.titled("", title=title)
        self.move_cursor(0)

    def repaint(self) -> None:
        """The lines do not depend on the scene, the title fills the width."""
        self._show_titles()

    def draw_row(self, row: Choice, width: int) -> Line:
        """One of them."""
        return describe.choice_line(row, width)

    @property
    def chosen(self) -> Choice:
        """Where the cursor is."""
        return self.rows[self.cursor]


class SignalDialog(Framed):
    """Sends nothing unless a signal was chosen and then confirmed."""

    AUTO_FOCUS = "Choices"
    table: ClassVar[tuple[Key, ...]] = SIGNAL_KEYS
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(SIGNAL_KEYS)]

    class Sent(Message):
        """The signals are out; what became of the processes."""

        def __init__(self, outcomes: Sequence[Outcome]) -> None:
            super().__init__()
            self.outcomes = outcomes

    class Failed(Message):
        """A defect of mpmon kept the signals from being sent."""

        def __init__(self, words: str) -> None:
            super().__init__()
            self.words = words

    def __init__(
        self, processes: Sequence[Process], send: Callable[[int, Sequence[Process]], Sequence[Outcome]]
    ) -> None:
        """`send` sends a signal to processes, and waits a moment for what it does."""
        super().__init__(labels((*SIGNAL_KEYS, *APP_KEYS[:1]), replay=False))
        self._processes = list(processes)
        self._send = send
        self._signal: Choice = CANCEL
        """What was chosen in the first step."""
        self._outcomes: dict[int, Outcome] | None = None
        self._sending = False
        self._choices = Choices()
        self._targets = Text(Subject("goes to", self._lines), None)

    def body(self) -> ComposeResult:
        """What can be chosen, and below it who gets it."""
        yield self._choices
        yield self._targets

    def on_mount(self) -> None:
        """The first step; Textual calls the frame's own handler as well."""
        self._begin()

    def show_scene(self) -> None:
        """The processes go by their roles now."""
        self._targets.scene = self.scene

    def copied(self) -> str:
        """Who gets it, or what became of them."""
        return text_of_lines(self._targets.rows)

    # Steps

    def _begin(self) -> None:
        """Which signal."""
        self._signal, self._outcomes = CANCEL, None
        self._choices.offer("which signal", CANCEL, *SIGNALS)
        self._targets.repaint()

    def action_choose(self) -> None:
        """Goes on with the line under the cursor."""
        chosen = self._choices.chosen if self._choices.rows else CANCEL
        if self._sending:
            return
        if self._outcomes is not None and chosen is not CLOSE:
            self._processes = describe.survivors(list(self._outcomes.values()))
            self._begin()
        elif not chosen.number:
            self.dismiss()
        elif self._signal is CANCEL:
            self._confirm(chosen)
        else:
            self._go(chosen.number)

    def _confirm(self, chosen: Choice) -> None:
        """Whom it goes to, in the order in which it will."""
        self._signal = chosen
        if self.scene is not None:
            self._processes = describe.in_order(self.scene, self._processes, chosen.number)
        self._choices.offer(f"send {chosen.name}?", CANCEL, describe.confirmation(chosen, len(self._processes)))
        self._targets.scroll_to(y=0, animate=False)
        self._targets.repaint()

    def _go(self, number: int) -> None:
        self._sending = True
        self._choices.offer(f"sending {self._signal.name} …")
        processes = list(self._processes)
        in_background(
            "signals",
            lambda: self.post_message(self.Sent(self._send(number, processes))),
            lambda words: self.post_message(self.Failed(words)),
        )

    def on_signal_dialog_sent(self, message: Sent) -> None:
        """Who is still there."""
        self._sending = False
        self._outcomes = {outcome.process.pid: outcome for outcome in message.outcomes}
        left = describe.survivors(message.outcomes)
        self._choices.offer(f"{self._signal.name} was sent", CLOSE, *([describe.again(left)] if left else []))
        self._targets.repaint()

    def on_signal_dialog_failed(self, message: Failed) -> None:
        """Nobody knows what was sent."""
        self._sending = False
        self._outcomes = {}
        self._choices.offer(message.words, CLOSE)

    def action_cancel(self) -> None:
        """Leaves; while signals are on their way, waits for what becomes of them."""
        if not self._sending:
            self.dismiss()

    def _lines(self, scene: Scene, pid: int | None, width: int) -> list[Line]:
        del pid
        if not self._processes:
            return [plain("nobody", "dim")]
        return describe.targets(scene, self._processes, width, number=self._signal.number, outcomes=self._outcomes)
