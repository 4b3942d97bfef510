"""A process blocks writing to a pipe or socket because the reader does not read.

What it looks like: a subprocess is in `write` to its standard output, a full pipe, or in `send` on a socket; its parent waits
for it to end (`wait`, `call`, `join`) instead of reading, or reads something else first. Or a server that handles one
connection at a time reads from one while another is full.
What to do: for a subprocess, `communicate()`, or read while it runs, or send the output to a file or `DEVNULL`. For sockets,
read from all connections while the other side sends.
"""

from __future__ import annotations

from mpmon.diagnosis.criteria.crossed_waits import unread
from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet

CAUSE = "pipe-full"
NEEDS = frozenset({"blocked", "handles"})


def match(stuck: StuckSet) -> Match | None:
    """A writer is stuck, and its reader waits for the writer to end, or for something that depends on it."""
    found = unread(stuck)
    if found is None:
        return None
    writer, reader = found
    edge = stuck.graph.node(writer).edge
    names = stuck.named(reader), stuck.job.full_name(writer[0])
    in_pipe = stuck.wait_state(writer).kind is Wait.PIPE_WRITE
    cannot = "cannot write its output: the pipe is full" if in_pipe else "cannot send: the buffer of its socket is full"
    alone = {target[0] for target in stuck.targets(writer) if isinstance(target, tuple)} == {reader[0]}
    could = f"only {names[0]} could read it" if alone else f"{names[0]}, which could read it, does not"
    return Match(
        summary=f"{names[0]} waits{stuck.at(reader)} for {stuck.waits_for(reader)}, but {names[1]} "
        f"{cannot}, and {could}",
        evidence=((edge.evidence if edge else "") or f"pid {writer[0]} is blocked in write",),
        advice=(
            _OF_ANSWERS if stuck.wait_state(writer).kind is Wait.EVENT_LOOP else _OF_OUTPUT if in_pipe else _OF_SOCKET,
        ),
        certainty=Certainty.PROVED if alone else Certainty.LIKELY,
    )


_OF_OUTPUT = "Use communicate(), or read the output while the process runs, or send it to a file."
_OF_SOCKET = "Read while the other side sends, from all connections: with a thread for each, or with a selector."
_OF_ANSWERS = "Read each answer to its end, or close it, before the next request; or read in a task of its own."
