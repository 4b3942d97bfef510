"""Pages of text that lie on the main screen and follow what happens: one line each in `PAGES`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from mpmon.tui.describe import details, events, finding, groups, ipc, stack
from mpmon.tui.describe.help import help_lines
from mpmon.tui.keys import APP_KEYS, PAGE_KEYS, Key, bindings, labels, offered
from mpmon.tui.line import Line, plain, text_of_lines
from mpmon.tui.screens.framed import Framed
from mpmon.tui.widgets.panel import TextPanel

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from mpmon.tui.scene import Scene


@dataclass(frozen=True)
class Subject:
    """What a page is about."""

    title: str
    lines: Callable[[Scene, int | None, int], list[Line]]
    """Scene, selected process and width in, lines out."""
    of_process: bool = False
    """It is about the selected process."""
    note: Callable[[], str] = str
    """What to say beside its title."""
    follows: bool = False
    """What comes is at its end."""


PAGES: dict[str, Subject] = {
    "details": Subject("details", lambda scene, pid, width: details.details(scene, pid or 0, width), of_process=True),
    "stacks": Subject("stacks", lambda scene, pid, width: stack.all_threads(scene, pid or 0, width), of_process=True),
    "groups": Subject("equal stacks", lambda scene, _, width: groups.groups(scene, width)),
    "why": Subject("why", lambda scene, _, width: finding.in_full(scene, width)),
    "ipc": Subject("queues and IPC", lambda scene, _, width: ipc.everything(scene, width)),
    "events": Subject("events", lambda scene, _, width: events.events(scene, width), follows=True),
}


def subject(name: str, withheld: Collection[str]) -> Subject:
    """One of `PAGES`, or "help": the keys without those of actions that are withheld."""
    return PAGES.get(name) or Subject("keys", lambda _, __, width: help_lines(width, withheld))


class Text(TextPanel):
    """Lines of a subject, scrolled by keys."""

    DEFAULT_CSS = """
    Text { height: 1fr; }
    """

    def __init__(self, subject: Subject, pid: int | None) -> None:
        super().__init__()
        self._subject = subject
        self.follows = subject.follows
        self._pid = pid

    def repaint(self) -> None:
        """The lines of the scene now."""
        if self.scene is None:
            self.show_rows((plain("looking …", "dim"),))
            return
        self.show_rows(self._subject.lines(self.scene, self._pid, self.size.width))
        who = self.scene.who(self._pid) if self._subject.of_process and self._pid is not None else ""
        self.titled(" · ".join(filter(None, (who, self._subject.note()))), title=self._subject.title)


class Page(Framed):
    """A subject fullscreen, under the same headline."""

    table: ClassVar[tuple[Key, ...]] = PAGE_KEYS
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(PAGE_KEYS)]

    def __init__(
        self, subject: Subject, pid: int | None, withheld: Collection[str], own_keys: tuple[Key, ...] = ()
    ) -> None:
        super().__init__(labels(offered((*PAGE_KEYS, *own_keys, *APP_KEYS), withheld), replay=False))
        self.subject = subject
        self.text = Text(subject, pid)

    def body(self) -> ComposeResult:
        """The text."""
        yield self.text

    def show_scene(self) -> None:
        """Passes the scene on."""
        self.text.scene = self.scene

    def copied(self) -> str:
        """All of it, in view or not."""
        return text_of_lines(self.text.rows)

    def action_close(self) -> None:
        """Back."""
        self.dismiss()
