"""A DataLoader or pool worker does not come back from user code.

What it looks like: the trainer waits for the next batch (or a pool's result), one worker's stack ends in the dataset's
code and has not changed, its siblings wait for work.
Why: a download that backs off, a lock of a library, a loop that never finds what it looks for, a file that does not open.
What to do: look at the worker's line; `num_workers=0` shows the same in the trainer; give what it calls a timeout.
`DataLoader(timeout=…)` turns the hang into an error.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.knot import Claim, Knot, doing, stands_since
from mpmon.diagnosis.parts import Part, part
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.responsibility import is_client, unfinished_tasks
from mpmon.diagnosis.words import age, several

CAUSE = "worker-stuck"
NEEDS = frozenset({"stacks"})


def claim(knot: Knot) -> Claim | None:
    """The root is a worker inside the code it was asked to run, or such code waits for those who asked for it."""
    if tasks := unfinished_tasks(knot):
        return _wait_for_clients(knot, tasks)
    if part(knot) is not Part.WORKER:
        return None
    spins = knot.motion() is Motion.SPINNING
    return Claim(
        summary=f"{knot.role()} has been {knot.has_been()}",
        evidence=(_moves(knot), *knot.edge_evidence()),
        advice=(
            "Look at that line; num_workers=0 runs it in the trainer, where it is easier to watch."
            if "dataloader" in knot.role()
            else "Look at that line.",
            "Bound the loop: it never finds what it looks for."
            if spins
            else "Give what it calls a timeout; DataLoader(timeout=60) turns such a wait into an error.",
        ),
        certainty=Certainty.POSSIBLE if spins and knot.context() is None else Certainty.LIKELY,
    )


def _wait_for_clients(knot: Knot, tasks: list[ThreadKey]) -> Claim:
    first = tasks[0]
    lasts = age(knot.case.now - stands_since(knot.case, first))
    asked = dict.fromkeys(key[0] for key in knot.closed.core if key not in tasks and is_client(knot, key))
    clients, others = several([knot.case.role(pid).name for pid in asked]), several(_names(knot, tasks[1:]))
    return Claim(
        summary=f"{knot.case.role(first[0]).name} has been {doing(knot.case, first, lasts)}, in a task of {clients}"
        f"{f', and so {_have(tasks[1:])} {others}' if others else ''}: only {clients} could answer, but "
        f"{'waits' if len(asked) == 1 else 'wait'} for the end of the task",
        evidence=knot.edge_evidence(),
        advice=("A task cannot ask whoever waits for it: hand in with the task what it needs.",),
        certainty=Certainty.LIKELY,
    )


def _have(keys: list[ThreadKey]) -> str:
    return "have" if len(keys) > 1 else "has"


def _names(knot: Knot, keys: list[ThreadKey]) -> list[str]:
    return [knot.case.role(pid).name for pid in dict.fromkeys(key[0] for key in keys)]


def _moves(knot: Knot) -> str:
    if knot.motion() is Motion.FROZEN:
        return f"{knot.role()} has not run for {knot.for_how_long()} (scheduler counters of /proc/PID/task/TID)"
    if knot.motion() is Motion.SPINNING:
        return knot.burning()
    return f"{knot.role()} wakes and goes back to the same line: every look finds the same arguments"
