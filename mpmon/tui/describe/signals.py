"""The dialog of signals in words: which signals there are, whom they go to and in which order, what became of them."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, NamedTuple

from mpmon.tui import format as fmt
from mpmon.tui.describe.naming import names_of
from mpmon.tui.describe.waits import STATES
from mpmon.tui.line import BLANK, Line, Span, clip, plain, wrap
from mpmon.tui.tables.tags import CLEANERS
from mpmon.tui.tables.tree import below, natural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mpmon.model import Process
    from mpmon.signals import Outcome
    from mpmon.tui.scene import Scene


class Choice(NamedTuple):
    """A line to choose."""

    name: str
    does: str = ""
    number: int = 0
    """Of a signal; 0 for what sends none."""


CANCEL = Choice("Cancel", "send nothing")
CLOSE = Choice("Close")

SIGNALS: tuple[Choice, ...] = tuple(
    Choice(number.name, does, number)
    for number, does in (
        (signal.SIGTERM, "asks it to end; torchrun ends its ranks first"),
        (signal.SIGINT, "like Ctrl-C: KeyboardInterrupt, once its main thread runs Python again"),
        (signal.SIGKILL, "ends it at once; nothing is saved or cleaned up"),
        (signal.SIGSTOP, "holds it until SIGCONT"),
        (signal.SIGCONT, "lets it continue after a stop"),
        (signal.SIGUSR1, "handled by the program; ends it if there is no handler"),
        (signal.SIGUSR2, "handled by the program; ends it if there is no handler"),
        (signal.SIGHUP, "its terminal is gone: ends it if there is no handler"),
        (signal.SIGQUIT, "ends it with a core dump, if these are enabled"),
        (signal.SIGABRT, "the same; with faulthandler on, it first prints all its stacks"),
    )
)
"""The most useful first: signal(7)."""

NAME_WIDTH = 9


def in_order(scene: Scene, processes: Iterable[Process], number: int) -> list[Process]:
    """Who gets the signal first.

    Those above come before those below.  A launcher or a pool that is still there when its children end takes their end for
    a failure, and starts new ones or reports what is none; one that ends first, or is stopped first, cannot.  The children
    are not lost by that: every process of the list is held by a handle before the first signal goes out.
    SIGCONT goes the other way round, so that whoever goes on finds its children going.
    Those who clean up shared memory after the others come last.
    """
    direction = -1 if number == signal.SIGCONT else 1
    return sorted(
        processes,
        key=lambda p: (
            scene.role(p.pid) in CLEANERS,
            direction * len(scene.line_of(p.pid)),
            natural(scene.role(p.pid)),
            p.pid,
        ),
    )


def choice_line(choice: Choice, width: int) -> Line:
    """A line to choose."""
    return clip(((f"  {choice.name:<{NAME_WIDTH}}", "bold"), (f" {choice.does}", "")), width)


def confirmation(choice: Choice, count: int) -> Choice:
    """The line that sends."""
    them = "this process" if count == 1 else f"these {count} processes"
    return Choice(f"Send {choice.name} to {them}", "", choice.number)


def survivors(outcomes: Sequence[Outcome]) -> list[Process]:
    """Those who got the signal and are still there."""
    return [o.process for o in outcomes if not o.problem and not o.ended]


def again(left: list[Process]) -> Choice:
    """The line that begins anew with those who are still there."""
    them = "the one that is" if len(left) == 1 else f"the {len(left)} that are"
    return Choice(f"Another signal to {them} still there")


def targets(
    scene: Scene,
    processes: Sequence[Process],
    width: int,
    *,
    number: int = 0,
    outcomes: Mapping[int, Outcome] | None = None,
) -> list[Line]:
    """Everybody who gets the signal, one after the other, with what became of them; then who does not get it but is concerned."""
    lines: list[Line] = []
    for place, process in enumerate(processes, 1):
        lines += _target(scene, process, place, width, outcomes.get(process.pid) if outcomes else None)
    concerned = [] if outcomes else notes(scene, processes, number)
    return [*lines, *([BLANK] if concerned else []), *(line for note in concerned for line in _note(note, width))]


def _note(note: str, width: int) -> list[Line]:
    return wrap(note, width, first="! ", then="  ", style="warn")


def _target(scene: Scene, process: Process, place: int, width: int, outcome: Outcome | None) -> list[Line]:
    """`1. rank 3 · pid 4104 · started 2026-01-01 12:00:00`, its command below it."""
    spans: list[Span] = [
        (f"{place:>3}. ", "dim"),
        (_role(scene, process.pid), "bold"),
        (f" · pid {process.pid}", "bold"),
    ]
    if outcome:
        spans.append((" · ", ""))
        spans.append(became(outcome))
    else:
        spans.append((f" · started {fmt.moment(process.start_time)}", ""))
        now = scene.processes.get(process.pid)
        spans += [(" · has ended", "dim")] if now is None or now.key != process.key or now.ended else []
    command = " ".join(process.cmdline or (process.name,))
    return [clip(tuple(spans), width), clip(plain(f"     {command}", "dim"), width)]


def _role(scene: Scene, pid: int) -> str:
    role, rank = scene.role(pid), scene.rank_of(pid)
    return role if rank is None or scene.is_rank(pid) else f"{role} of rank {rank}"


def became(outcome: Outcome) -> Span:
    """What became of one."""
    if outcome.problem:
        return (f"not sent: {outcome.problem}", "bad")
    if outcome.ended:
        return ("has ended", "good")
    return (f"still there: {STATES.get(outcome.state, f'state {outcome.state}')}", "warn")


def notes(scene: Scene, processes: Sequence[Process], number: int) -> list[str]:
    """What to think of before the signal is sent."""
    if number in (0, signal.SIGCONT):
        return []
    pids = {process.pid for process in processes}
    return [note for note in (_above(scene, pids), _below(scene, pids), _cleaners(scene, pids)) if note]


def _above(scene: Scene, pids: set[int]) -> str:
    """A launcher that stays."""
    tops = sorted({parent for pid in pids for parent in scene.line_of(pid)[1:2] if parent not in pids})
    if not tops:
        return ""
    what = "it may start another in its place" if len(pids) == 1 else "it may start others in their place"
    return f"no signal goes to {names_of(scene, tops)} above: {what}"


def _below(scene: Scene, pids: set[int]) -> str:
    """Children that stay; those who clean up should."""
    found = sorted({child for pid in pids for child in below(pid, scene.views)} - pids)
    living = [pid for pid in found if pid in scene.processes and not scene.processes[pid].ended]
    left = [pid for pid in living if scene.role(pid) not in CLEANERS]
    if not left:
        return ""
    return f"no signal goes to {names_of(scene, left)} below (c tags a whole branch)"


def _cleaners(scene: Scene, pids: set[int]) -> str:
    """Those whose end leaves files behind."""
    found = sorted(pid for pid in pids if scene.role(pid) in CLEANERS)
    if not found:
        return ""
    return f"{names_of(scene, found)} would remove what the others leave in shared memory, and would then end by itself"
