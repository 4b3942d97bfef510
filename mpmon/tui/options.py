"""What the command line decides about the screen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mpmon.tui.export import write_new
from mpmon.tui.keys import EXPORT, SIGNALS, UNMASK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from mpmon.diagnosis.findings import Observation
    from mpmon.model import Process
    from mpmon.signals import Outcome

ONLY_LOOKS = "a window of mpmon serve may only look, unless that was started with --no-readonly"


@dataclass(frozen=True)
class Options:
    """How the screen looks, and which functions it may call.

    The functions come from above because the screen itself neither reads nor changes a process.
    """

    ascii_only: bool = False
    """Draw with ASCII only."""
    color: bool = True
    """Use colours; `NO_COLOR` in the environment is honoured as well."""
    theme: str = "ansi-dark"
    """A name of one of Textual's themes; this one has the colours of the user's terminal."""
    readonly: bool = False
    """Offer no signals."""
    guest: bool = False
    """Whoever looks did not start mpmon: offer nothing but looks, so neither files nor secrets."""
    about: str = ""
    """One line on what is watched, where somebody knows it: the scene of a demo, or the job that it is only a part of."""
    interval: float = 1.0
    """Seconds between rounds, to tell a slow look from a silent one."""
    export: Callable[[Observation], str] | None = None
    """Makes the text report of the export key; without it that key writes none."""
    document: Callable[[Observation], str] | None = None
    """Makes its JSON report; without it that key writes none."""
    save: Callable[[str, dict[str, str], Path], str] = write_new
    """Writes the files of that key: `mpmon.tui.export.write_new`, or what makes that call where it cannot hang the screen."""
    send: Callable[[int, Sequence[Process]], Sequence[Outcome]] | None = None
    """Sends a signal to processes, and tells what became of them; without it there are no signals."""
    environment: Callable[[Process], tuple[Mapping[str, str], str]] | None = None
    """Reads the variables of a process, and says what is wrong with them; without it only the recorded ones are shown."""

    @property
    def withheld(self) -> frozenset[str]:
        """Actions, by their names in `mpmon.tui.keys`, that are not offered."""
        if self.guest:
            return frozenset({SIGNALS, EXPORT, UNMASK})
        return frozenset({SIGNALS} if self.readonly else ())
