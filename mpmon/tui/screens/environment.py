"""The page with all variables of a process, read now, on demand, and kept nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.message import Message

from mpmon.tui.background import in_background
from mpmon.tui.describe import environment as describe
from mpmon.tui.describe.environment import Answer
from mpmon.tui.keys import ENVIRONMENT_KEYS, PAGE_KEYS, UNMASK, bindings
from mpmon.tui.line import Line, plain, wrap
from mpmon.tui.options import ONLY_LOOKS
from mpmon.tui.screens.pages import Page, Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from textual.binding import BindingType

    from mpmon.model import Process
    from mpmon.tui.keys import Key
    from mpmon.tui.scene import Scene

PATIENCE_S = 3.0
"""After so long without an answer the user is told why there may be none."""

NO_ANSWER = (
    f"no answer for {PATIENCE_S:g} s: the kernel makes readers wait while the process's memory map is locked, "
    "as when it maps a large file or dumps core"
)
OF_A_RECORDING = "a recording keeps only these few variables, because the others may hold secrets"


class EnvironmentPage(Page):
    """Asks for the variables of one process, then for those of its peers, one after the other."""

    table: ClassVar[tuple[Key, ...]] = (*PAGE_KEYS, *ENVIRONMENT_KEYS)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(PAGE_KEYS), *bindings(ENVIRONMENT_KEYS)]

    class Answered(Message):
        """One of the processes has answered."""

        def __init__(self, pid: int, answer: Answer) -> None:
            super().__init__()
            self.pid = pid
            self.answer = answer

    def __init__(
        self,
        pid: int,
        source: Callable[[Process], tuple[Mapping[str, str], str]] | None,
        withheld: Collection[str],
    ) -> None:
        """`source` reads the variables of a process, and says what is wrong with them; without it there are the kept ones."""
        subject = Subject("environment", self._lines, of_process=True, note=self._note)
        super().__init__(subject, pid, withheld, ENVIRONMENT_KEYS)
        self._may_unmask = UNMASK not in withheld
        self._pid = pid
        self._source = source
        self._answers: dict[int, Answer] = {}
        self._asked = False
        self._late = False
        self._masked = True

    def show_scene(self) -> None:
        """The first scene tells whom to ask."""
        if self.scene is not None and self._source is not None and not self._asked:
            self._asked = True
            self._ask(self.scene)
        super().show_scene()

    def _ask(self, scene: Scene) -> None:
        pids = [pid for pid in (self._pid, *describe.peers(scene, self._pid)) if pid in scene.processes]
        processes = [scene.processes[pid] for pid in pids]
        in_background("environment", lambda: self._read(processes), self._fail)
        self.set_timer(PATIENCE_S, self._grow_impatient)

    def _read(self, processes: list[Process]) -> None:
        """In the thread behind the screen."""
        for process in processes:
            if self._source is not None:
                self.post_message(self.Answered(process.pid, Answer(*self._source(process))))

    def _fail(self, words: str) -> None:
        self.post_message(self.Answered(self._pid, Answer({}, words)))

    def _grow_impatient(self) -> None:
        self._late = True
        self.text.repaint()

    def on_environment_page_answered(self, message: Answered) -> None:
        """Shown at once; the others follow."""
        self._answers[message.pid] = message.answer
        self.text.repaint()

    def action_unmask(self) -> None:
        """Shows secrets, or hides them again."""
        if not self._may_unmask:
            self.notice(f"no secrets: {ONLY_LOOKS}")
            return
        self._masked = not self._masked
        self.text.repaint()

    def _lines(self, scene: Scene, pid: int | None, width: int) -> list[Line]:
        own = self._pid if pid is None else pid
        if self._source is None:
            return describe.kept(scene, own, width, OF_A_RECORDING)
        if own not in self._answers:
            return wrap(NO_ANSWER, width, style="warn") if self._late else [plain("reading …", "dim")]
        return describe.environment(scene, own, width, self._answers, masked=self._masked)

    def _note(self) -> str:
        own = self._answers.get(self._pid)
        return describe.note(own.variables, masked=self._masked, key=self._may_unmask) if own and own.variables else ""
