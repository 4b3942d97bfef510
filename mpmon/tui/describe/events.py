"""What happened, one event after the other, the newest last: as in a log that is followed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpmon.tui import format as fmt
from mpmon.tui.line import Line, clip, plain, wrap

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mpmon.diagnosis.findings import Event
    from mpmon.model import Process
    from mpmon.tui.scene import Scene

CLOCK = len("12:00:00")

MOST_OF_ONE = 12
"""Events of one process that are listed, the newest ones."""

GOOD = frozenset({"hang-ended", "gpu-back", "probe-works"})
"""Kinds of events that end some trouble."""


def events(scene: Scene, width: int) -> list[Line]:
    """All of them, under the day they happened on."""
    return _in_full(scene.observation.events, width) or [plain("nothing yet", "dim")]


def of_process(scene: Scene, process: Process, width: int) -> list[Line]:
    """Those that are about one process."""
    own = [event for event in scene.observation.events if process.pid in event.pids]
    more = len(own) - MOST_OF_ONE
    lines = [plain(f"  {more} earlier ones (l)", "dim")] if more > 0 else []
    return lines + _in_full(own[-MOST_OF_ONE:], width)


def _in_full(found: Iterable[Event], width: int) -> list[Line]:
    lines: list[Line] = []
    day = ""
    for event in found:
        if (today := fmt.moment(event.at).partition(" ")[0]) != day:
            day = today
            lines.append(plain(f"  {day}", "dim"))
        first, *rest = wrap(event.summary, width - CLOCK - 4)
        lines.append((*_start(event), *first))
        lines += [((" " * (CLOCK + 4), ""), *line) for line in rest]
    return lines


def in_a_line(event: Event, width: int) -> Line:
    """`! 12:04:31 rank 2 (pid 4102) was killed by SIGKILL (9)`."""
    return clip((*_start(event), (event.summary, "")), width)


def _start(event: Event) -> Line:
    """Whether it is trouble, and when."""
    style = "bad" if event.bad else "good" if event.kind in GOOD else "dim"
    return (("! " if event.bad else "  ", style), (f"{fmt.clock(event.at)}  ", style))
