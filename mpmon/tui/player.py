"""Which picture is shown: the newest, or an earlier one of a live job or a recording."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mpmon.diagnosis.findings import Verdict

if TYPE_CHECKING:
    from mpmon.diagnosis.findings import Observation
    from mpmon.source import Watch

SLOWEST, FASTEST = 1 / 8, 64.0
"""Bounds of the speed of a replay."""


OLDER = "the hang began before the oldest snapshot; this is the first that shows it"


class Player:
    """Holds the picture that is shown. Both kinds of watch are looked back at in their buffer.

    What a recording has not shown yet is asked of its watch, which plays on from where the user looks.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._newest: Observation | None = None
        self.shown: Observation | None = None
        self.paused = False
        self._asked = False
        """A paused recording was asked for more."""
        self._seeks_hang = False
        """It was asked for where the hang began."""

    def arrived(self, observation: Observation) -> None:
        """The watch has made a picture: it is shown, unless the display is paused and did not ask for it."""
        self._newest = observation
        if self.shown is None or not self.paused or self._asked:
            self.shown = observation

    def searched(self) -> str:
        """What there is to say of the search for a hang, once it is at the end of the recording."""
        if not (self._seeks_hang and self.at_end):
            return ""
        self._seeks_hang = False
        return "" if self._watch.buffer.hang() else "no hang in this recording"

    def toggle(self) -> None:
        """Pauses, or goes on: a live job from now, a recording from where the user looks."""
        if not self.paused:
            self._pause()
            return
        self.paused = self._seeks_hang = False
        if self._watch.live:
            self.shown = self._newest
        else:
            self._watch.go(self.shown.number if self.shown else 0)
            self._watch.pause(False)

    def back(self) -> str:
        """Pauses at the picture before; returns what there is to say."""
        self._pause()
        earlier = self.shown and self._watch.buffer.before(self.shown.number)
        return self._look_at(earlier) if earlier else "no earlier snapshot is kept"

    def step(self) -> str:
        """Pauses at the next picture; returns what there is to say."""
        self._pause()
        later = self.shown and self._watch.buffer.after(self.shown.number)
        if later:
            return self._look_at(later)
        if self._watch.live:
            return "this is the newest snapshot"
        self._asked = True
        self._watch.step()
        return ""

    def to_hang(self) -> str:
        """Pauses where the hang began; returns what there is to say."""
        self._pause()
        began = self._watch.buffer.hang()
        if began:
            since = began.diagnosis.since
            earlier = since is not None and since < began.snapshot.taken_at and began.diagnosis.verdict is Verdict.HUNG
            return self._look_at(began) or (OLDER if earlier else "")
        if self._watch.live:
            return "no hang so far"
        self._asked = self._seeks_hang = True
        self._watch.find_hang()
        return "reading on to the hang"

    def faster(self, factor: float) -> None:
        """Plays a recording so much faster."""
        if not self._watch.live:
            self._watch.speed = min(FASTEST, max(SLOWEST, self._watch.speed * factor))

    @property
    def at_end(self) -> bool:
        """The last picture of a recording is shown."""
        return self.shown is not None and self.shown.number == self._watch.length

    def marks(self) -> tuple[str, ...]:
        """Words on the state of the display."""
        said = ["paused"] if self.paused else []
        if not self._watch.live and self._watch.speed != 1:
            said.append(f"{self._watch.speed:g}x")
        if self.shown is not None and (not self._watch.live or self.shown is not self._newest):
            said.append(self._place(self.shown))
        return tuple(said)

    def _place(self, shown: Observation) -> str:
        """`12:04:31 · 37 of 120`, and whether that is the end, in the time of where mpmon runs."""
        clock = time.strftime("%H:%M:%S", time.localtime(shown.snapshot.taken_at))
        of = self._watch.length if self._newest is None or not self._watch.live else self._newest.number
        end = ", the end" if self.at_end else ""
        return f"{clock} · {shown.number}" + (f" of {of}" if of is not None else "") + end

    def _pause(self) -> None:
        self.paused, self._asked, self._seeks_hang = True, False, False
        if not self._watch.live:
            self._watch.pause(True)

    def _look_at(self, picture: Observation) -> str:
        self.shown = picture
        if not self._watch.live:
            self._watch.go(picture.number)
        return ""
