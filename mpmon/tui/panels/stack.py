"""The stack of the selected process: one thread, what the kernel says of it, and its frames, of Python and of C.

Of a process in the chain of a finding the stacks of the others in it follow, where there is room or who scrolls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from mpmon.tui.describe.stack import ThreadKey, along_chain, thread_lines, threads_of
from mpmon.tui.line import BLANK, Line
from mpmon.tui.widgets.panel import TITLE_LINES, TextPanel

if TYPE_CHECKING:
    from collections.abc import Iterable


class StackPanel(TextPanel):
    """Set `selected` to a process; `turn` goes to its other threads."""

    TITLE: ClassVar[str] = "stack"

    _tid: int | None = None
    """The thread the user turned to; `None` shows the one that matters."""

    def watch_selected(self) -> None:
        """Another process: its own thread, from the top."""
        self._tid = None
        self.scroll_to(y=0, animate=False)
        if self.is_mounted:
            self.repaint()

    def turn(self, threads: int) -> None:
        """Shows the thread so many places further; they go round."""
        if self.scene is None or self.selected is None:
            return
        known = threads_of(self.scene, self.selected)
        if known:
            at = known.index(self._thread(known))
            self._tid = known[(at + threads) % len(known)].tid
            self.scroll_to(y=0, animate=False)
            self.repaint()

    def repaint(self) -> None:
        """The thread's lines under a title with its process."""
        if self.scene is None or self.selected is None:
            self.show_rows(())
            self.titled("")
            return
        known = threads_of(self.scene, self.selected)
        thread = self._thread(known) if known else ThreadKey(self.selected, "MainThread")
        width = self.size.width
        own = thread_lines(self.scene, self.selected, thread.tid, width, folded=True)
        others = along_chain(self.scene, self.selected, thread.tid, width)
        self.show_rows(one_below_the_other(own, others, self.size.height - TITLE_LINES))
        which = f" · {known.index(thread) + 1} of {len(known)} ←→" if len(known) > 1 else ""
        self.titled(f"{self.scene.who(self.selected)} · {thread.name}{which}")

    def _thread(self, known: tuple[ThreadKey, ...]) -> ThreadKey:
        """The thread the user chose, else the suspect one, else the main thread."""
        wanted = (self._tid, self._suspect_tid())
        return next((thread for tid in wanted for thread in known if thread.tid == tid), known[0])

    def _suspect_tid(self) -> int | None:
        findings = self.scene.diagnosis.findings if self.scene else ()
        return next((s.tid for f in findings for s in f.suspects if s.pid == self.selected), None)


def one_below_the_other(first: list[Line], others: Iterable[list[Line]], height: int) -> list[Line]:
    """Stacks with a blank line between two; a title that would be the last of `height` lines goes to the next page."""
    lines = [*first]
    for stack in others:
        lines += [BLANK, BLANK] if len(lines) + 1 == height - 1 else [BLANK]
        lines += stack
    return lines
