"""How many lines each panel of the main screen gets. Pure.

The finding is on top and always there; what is to be done about it stands there wherever the others can spare the lines.
GPUs, processes and, in a job in trouble, the stack come first.  Queues get lines where something in them matters, where they
have the keys, and where lines are left; details and the last events only where lines are left.
"""

from __future__ import annotations

from typing import NamedTuple

PANEL_MIN = 3
"""A panel of fewer lines says nothing."""

GPUS_MIN = 9
"""Lines for eight GPUs and a title, where there is room for the others."""

PROCESSES_MIN = 5
"""Lines of the processes that no other panel takes."""

LIST_MIN = 4
"""Lines of the processes where the job has fewer."""

STACK_COMFORTABLE = 12
"""What the stack has beyond these lines others may use."""

STACK_CALM = 5
"""The same while nobody wants to read it."""

STACK_IN_TROUBLE = 4
"""Lines of a stack that somebody wants to read, which the GPUs do not take."""

STACK_IN_HANG = 7
"""Lines of a stack and its title that come before what else there is to say of the finding.  Not those of the selected
process, or the panels would move with the cursor."""

DETAILS_MIN = 8
"""Lines in which details say more than the list of processes does."""

PRESSING_MAX = 4
"""Lines for queues in trouble, as long as others want the room."""

EVENTS_MAX = 9

LOW_SCREEN = 20
"""Below so many lines a calm job needs no stack beside its GPUs and processes."""


class Wants(NamedTuple):
    """Lines each panel would like to have; 0 for one that is not there."""

    gpus: int = 0
    processes: int = 0
    queues: int = 0
    pressing: int = 0
    """Lines of the queues for what a person should look at."""
    events: int = 0
    finding: int = 0
    finding_least: int = 0
    """Lines of the finding on the smallest screen, whatever the others want."""


class Heights(NamedTuple):
    """Lines of each panel, from top to bottom."""

    gpus: int
    processes: int
    queues: int
    stack: int
    details: int
    events: int


def finding_lines(room: int, wants: Wants, *, wide: bool, calm: bool) -> int:
    """Lines of the finding: what it must have, and of what else it wants as much as the others do not need.

    Args:
        room: Lines there are for it and the others.
        wants: Lines they want.
        wide: Processes and stack are side by side.
        calm: Nobody wants to read the stack.
    """
    least = min(wants.finding, max(wants.finding_least, 0 if calm else room // 4))
    stack = STACK_CALM if calm else STACK_IN_HANG
    processes = max(wants.processes, LIST_MIN) + wants.pressing
    others = wants.gpus + (max(processes, stack) if wide else processes + stack)
    return min(room, wants.finding, max(least, room - others))


def heights(room: int, wants: Wants, *, calm: bool) -> Heights:
    """Panels one below the other.

    Args:
        room: Lines there are.
        wants: Lines the panels want.
        calm: Nobody wants to read the stack: nothing is found, and the keys are elsewhere.
    """
    top = _top(room, wants, calm=calm)
    queues = max(0, min(wants.pressing, room - top - PROCESSES_MIN))
    rest = room - top - queues
    share = rest if calm and wants.gpus and rest < LOW_SCREEN else max(PROCESSES_MIN, rest * 55 // 100)
    middle = min(max(wants.processes, LIST_MIN), share, rest)
    if rest - middle < PANEL_MIN:
        return Heights(top, rest, queues, 0, 0, 0)
    spare = max(0, rest - middle - (STACK_CALM if calm else STACK_COMFORTABLE))
    more = min(wants.queues - queues, spare) if spare >= PANEL_MIN else 0
    events = _or_none(min(wants.events, EVENTS_MAX, spare - more))
    return Heights(top, middle, queues + more, rest - middle - more - events, 0, events)


def sides(room: int, wants: Wants, *, calm: bool) -> Heights:
    """Processes above queues, and beside them the stack above details and events; the left side may stay empty.

    Details are for a calm job only: in one in trouble the stack is followed by those of others.  They have the room that does
    not depend on the stack, or they would move with each call that a process makes.
    """
    top = _top(room, wants, calm=calm)
    rest = room - top
    queues = min(wants.queues, max(wants.pressing, rest // 4, rest - wants.processes), rest - min(rest, LIST_MIN))
    queues = _or_none(queues)
    middle = min(max(wants.processes, LIST_MIN), rest - queues) if queues else rest
    events = _or_none(min(wants.events, EVENTS_MAX, rest - STACK_COMFORTABLE))
    spare = rest - events - STACK_COMFORTABLE
    details = spare if calm and spare >= DETAILS_MIN else 0
    return Heights(top, middle, rest - middle, rest - details - events, details, events)


def _top(room: int, wants: Wants, *, calm: bool) -> int:
    """Lines of the GPUs."""
    others = min(wants.processes, PROCESSES_MIN) + (0 if calm else STACK_IN_TROUBLE) + wants.pressing
    return max(0, min(wants.gpus, max(GPUS_MIN, room * 2 // 5), room - others))


def _or_none(lines: int) -> int:
    return lines if lines >= PANEL_MIN else 0
