"""Work that may take long, done in a thread of its own: the screen never waits for it."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def in_background(name: str, work: Callable[[], object], failed: Callable[[str], object]) -> None:
    """Starts the work and returns; `work` posts what it finds, `failed` is told of a defect in words.

    A daemon thread: it may hang in the kernel, and quitting does not wait for it.
    """

    def run() -> None:
        try:
            work()
        except Exception as problem:
            failed(f"mpmon failed: {type(problem).__name__}: {problem}")

    Thread(target=run, name=f"mpmon {name}", daemon=True).start()
