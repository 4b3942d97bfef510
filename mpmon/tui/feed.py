"""The thread that waits for observations, so that the screen never does."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING

from mpmon.errors import in_words
from mpmon.tui.messages import Ended, Observed

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.message import Message

    from mpmon.source import Watch

PATIENCE_S = 0.5
"""How long quitting waits for the thread."""


class Feed(Thread):
    """Iterates a watch and posts what comes.

    A daemon thread of our own and not a Textual worker: a watch may block for ever,
    and Python waits for workers when it exits.
    """

    def __init__(self, watch: Watch, post: Callable[[Message], object]) -> None:
        super().__init__(name="mpmon watch", daemon=True)
        self._watch = watch
        self._post = post
        self._unwanted = False

    def run(self) -> None:
        """Until the watch ends, fails or is told to stop."""
        try:
            for observation in self._watch:
                if self._unwanted:
                    return
                self._tell(Observed(observation))
            self._tell(Ended())
        except Exception as error:
            self._tell(Ended(in_words(error)))

    def stop(self) -> None:
        """Asks the watch to end and does not insist."""
        self._unwanted = True
        self._watch.stop()
        if self.is_alive():
            self.join(PATIENCE_S)

    def _tell(self, message: Message) -> None:
        if not self._unwanted:
            self._post(message)
