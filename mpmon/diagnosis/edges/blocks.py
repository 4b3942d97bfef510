"""Waits for a lock of a program's own making: who polls in `__enter__` waits for those in the body of such a block."""

from __future__ import annotations

from mpmon.diagnosis.graph import WaitEdge
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.job_state import JobState


def entered_block(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """The threads that are in a `with` block which this one polls to enter; `None` if there are none."""
    uses = job.block_holders(key)
    if not uses:
        return None
    targets = tuple(dict.fromkeys((use.pid, use.tid) for use in uses))
    names = several(list(dict.fromkeys(job.role(pid).name for pid, _ in targets)))
    inside = several([f"pid {use.pid} is in a with block of it in {use.function}()" for use in uses])
    return WaitEdge(
        targets, holder_known=True, polled=True, words=f"a lock ({uses[0].kind}) held by {names}",
        evidence=f"pid {key[0]} polls to enter a with block of {uses[0].kind}, and {inside}: value stacks of their calls",
    )  # fmt: skip
