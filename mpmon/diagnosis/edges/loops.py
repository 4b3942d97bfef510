"""Event loops whose tasks wait for each other, for nobody, or for a child: see `mpmon.diagnosis.loops`."""

from __future__ import annotations

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.graph import WaitEdge
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.loops import does, place_of
from mpmon.diagnosis.waits import Wait
from mpmon.diagnosis.words import several

MOST_TOLD = 4
"""Tasks of which the evidence tells what they wait for."""


def stuck_loop(case: Case, key: ThreadKey) -> WaitEdge | None:
    """What a loop waits for in which all tasks are stuck: itself, or children that are stuck too; `None` for any other."""
    tasks = case.stuck_tasks(key)
    if not tasks:
        return None
    told = [f"{row.name} {does(row, tasks)}{place_of(row)}" for row in tasks[:MOST_TOLD]]
    more = f" and {len(tasks) - MOST_TOLD} more" if len(tasks) > MOST_TOLD else ""
    evidence = f"tasks of the event loop of pid {key[0]}: {'; '.join(told)}{more}"
    if children := tuple(dict.fromkeys((row.child, row.child) for row in tasks if row.child is not None)):
        # Ends take their time; a child that waits for room in a pipe which nobody reads never comes to one.
        if any(case.standing(child).kind is not Wait.PIPE_WRITE for child in children):
            return None
        names = several([case.role(pid).name for pid, _ in children])
        return WaitEdge(children, words=f"the end of {names}", evidence=evidence)
    return WaitEdge(
        (key,), every=True, polled=True, words="something only its own tasks could provide", evidence=evidence
    )
