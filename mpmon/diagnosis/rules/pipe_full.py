"""Blocked writing to a pipe or socket whose reader does not read.

What it looks like: a subprocess stands in `write` to its standard output, a pipe that is full, or in `send` on a socket;
its parent waits for its end (`wait`, `call`, `join`) instead of reading, or reads something else first; or a server that
serves one connection at a time reads the one while another is full.
What to do: `communicate()`, or read while it runs, or send the output to a file or `DEVNULL`.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.knot import Claim, Knot
from mpmon.diagnosis.parts import undrained
from mpmon.diagnosis.waits import ENDS, READS, Wait

CAUSE = "pipe-full"
NEEDS = frozenset({"blocked", "handles"})


def claim(knot: Knot) -> Claim | None:
    """A writer is stuck, and who should read waits for the writer's end, or for something that hangs on it."""
    if undrained(knot):
        return None
    for writer in knot.closed.members:
        need = knot.graph.node(writer).need
        if need is None or not _writes(knot, writer):
            continue
        reader = next((key for key in need.targets if isinstance(key, tuple) and _waits_elsewhere(knot, key)), None)
        if reader is None or knot.could_be_served(writer, reader):
            continue
        names = _name(knot, reader), knot.case.role(writer[0]).name
        what = "socket" if knot.standing(writer).kind is Wait.SOCKET else "pipe"
        alone = {target[0] for target in need.targets if isinstance(target, tuple)} == {reader[0]}
        could = f"{names[0]} alone could read it" if alone else f"{names[0]}, which could read it, does not"
        return Claim(
            summary=f"{names[0]} waits for {knot.waits_for(reader)}{knot.at(reader)}, but {names[1]} (pid "
            f"{writer[0]}) cannot write its output: the {what} is full, and {could}",
            evidence=(need.evidence or f"pid {writer[0]} is blocked in write",),
            advice=("Use communicate(), or read the output while the process runs, or send it to a file.",),
            certainty=Certainty.PROVED if alone else Certainty.LIKELY,
        )
    return None


def _writes(knot: Knot, key: ThreadKey) -> bool:
    blocked = knot.case.blocked.get(key)
    sends = knot.standing(key).kind is Wait.SOCKET and blocked is not None and blocked.writes
    return sends or knot.standing(key).kind is Wait.PIPE_WRITE


def _waits_elsewhere(knot: Knot, key: ThreadKey) -> bool:
    """It waits for the writer's end or for something else of the writer, or of others that wait for the writer in their turn."""
    if key not in knot.closed.members:
        return False
    blocked, kind = knot.case.blocked.get(key), knot.standing(key).kind
    receives = kind is Wait.SOCKET and blocked is not None and not blocked.writes
    # An event loop that rests does not watch the pipe: there is something to read in it.
    return receives or kind in ENDS | READS | {Wait.EVENT_LOOP}


def _name(knot: Knot, key: ThreadKey) -> str:
    role = knot.case.role(key[0]).name
    return role if key[0] == key[1] else f"thread {knot.case.thread_name(key)} of {role}"
