"""The row of the list of what processes share. Pure.

Texts are rounded to what is shown, so that a row is equal to the one before unless its line would differ.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from mpmon.tui.describe.naming import short_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mpmon.tui.line import Line
    from mpmon.tui.scene import Scene

NAMED = re.compile(r"\bprocess (?=[^\W\d])")
"""Before the name of a process, which says enough."""

TROUBLE = ("bad", "warn")
"""Styles of what a person should look at."""


class IpcRow(NamedTuple):
    """One thing that is shared, or several that are alike."""

    what: str
    amount: str = ""
    """Items in a queue and its bound, blocks of memory, memory used."""
    full: int | None = None
    """Percent of the bound."""
    size: str = ""
    """Bytes: unread in the pipe of a queue, or of the blocks."""
    rate: str = ""
    """Items taken from a queue each second."""
    who: str = ""
    """From whom to whom."""
    notes: Line = ()
    """What matters about it."""
    suspect: bool = False
    """Somebody who must move first should read it."""
    pid: int | None = None
    """Whom selecting the row selects."""

    @property
    def pressing(self) -> bool:
        """A person should look at it."""
        return any(style in TROUBLE for _, style in self.notes)

    @property
    def order(self) -> tuple[bool, bool, bool]:
        """What it sorts by: trouble, what waits, what a suspect should read, the rest."""
        return (not any(style == "bad" for _, style in self.notes), not self.pressing, not self.suspect)


def who(scene: Scene, pids: Iterable[int]) -> str:
    """`rank 0–3`, `Producer-1`."""
    return NAMED.sub("", short_names(scene, pids))


def first_shown(scene: Scene, pids: Iterable[int]) -> int | None:
    """The first of these processes that can be selected."""
    return next((pid for pid in pids if pid in scene.views), None)
