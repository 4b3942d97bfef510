"""A process blocks writing to a pipe or socket because the reader does not read.

What it looks like: a subprocess is in `write` to its standard output, a full pipe, or in `send` on a socket; its parent waits
for it to end (`wait`, `call`, `join`) instead of reading, or reads something else first. Or a server that handles one
connection at a time reads from one while another is full.
What to do: `communicate()`, or read while it runs, or send the output to a file or `DEVNULL`.
"""

from __future__ import annotations

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.parts import undrained
from mpmon.diagnosis.stuck_set import Match, StuckSet
from mpmon.diagnosis.waits import ENDS, READS, Wait

CAUSE = "pipe-full"
NEEDS = frozenset({"blocked", "handles"})


def match(stuck: StuckSet) -> Match | None:
    """A writer is stuck, and its reader waits for the writer to end, or for something that depends on it."""
    if undrained(stuck):
        return None
    for writer in stuck.closed.members:
        edge = stuck.graph.node(writer).edge
        if edge is None or not _writes(stuck, writer):
            continue
        reader = next((key for key in edge.targets if isinstance(key, tuple) and _waits_elsewhere(stuck, key)), None)
        if reader is None or stuck.could_be_served(writer, reader):
            continue
        names = _name(stuck, reader), stuck.job.role(writer[0]).name
        what = "socket" if stuck.wait_state(writer).kind is Wait.SOCKET else "pipe"
        alone = {target[0] for target in edge.targets if isinstance(target, tuple)} == {reader[0]}
        could = f"only {names[0]} could read it" if alone else f"{names[0]}, which could read it, does not"
        return Match(
            summary=f"{names[0]} waits for {stuck.waits_for(reader)}{stuck.at(reader)}, but {names[1]} (pid "
            f"{writer[0]}) cannot write its output: the {what} is full, and {could}",
            evidence=(edge.evidence or f"pid {writer[0]} is blocked in write",),
            advice=("Use communicate(), or read the output while the process runs, or send it to a file.",),
            certainty=Certainty.PROVED if alone else Certainty.LIKELY,
        )
    return None


def _writes(stuck: StuckSet, key: ThreadKey) -> bool:
    blocked = stuck.job.blocked.get(key)
    sends = stuck.wait_state(key).kind is Wait.SOCKET and blocked is not None and blocked.writes
    return sends or stuck.wait_state(key).kind is Wait.PIPE_WRITE


def _waits_elsewhere(stuck: StuckSet, key: ThreadKey) -> bool:
    """It waits for the writer to end or for something else from it, or from others that in turn wait for the writer."""
    if key not in stuck.closed.members:
        return False
    blocked, kind = stuck.job.blocked.get(key), stuck.wait_state(key).kind
    receives = kind is Wait.SOCKET and blocked is not None and not blocked.writes
    # An idle event loop cannot be watching the pipe, which has data to read.
    return receives or kind in ENDS | READS | {Wait.EVENT_LOOP}


def _name(stuck: StuckSet, key: ThreadKey) -> str:
    role = stuck.job.role(key[0]).name
    return role if key[0] == key[1] else f"thread {stuck.job.thread_name(key)} of {role}"
