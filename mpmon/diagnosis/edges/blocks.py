"""Waits for a lock of a program's own making: who polls in `__enter__` waits for those in the body of such a block."""

from __future__ import annotations

from mpmon.diagnosis.edges.dead import killed_relatives
from mpmon.diagnosis.graph import Absent, NoReleaser, WaitEdge
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState


def entered_block(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """The threads that are in a `with` block which this one polls to enter; if there are none, the relatives that were killed,
    one of which may have been in it; `None` if there are none of these either.
    """
    uses = job.block_holders(key)
    if not uses:
        return _left_locked(job, key)
    targets = tuple(dict.fromkeys((use.pid, use.tid) for use in uses))
    names = several(list(dict.fromkeys(job.role(pid).name for pid, _ in targets)))
    inside = several([f"pid {use.pid} is in a with block of it in {use.function}()" for use in uses])
    return WaitEdge(
        targets, holder_known=True, polled=True, words=f"a lock ({uses[0].kind}) held by {names}",
        evidence=f"pid {key[0]} polls to enter a with block of {uses[0].kind}, and {inside}: value stacks of their calls",
    )  # fmt: skip


def _left_locked(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """Several processes poll to enter it, so it is a lock. A relative that makes progress may bring what they look for."""
    wanted = job.block_wanted(key)
    waiting = {use.pid for use in job.lock_waiters(wanted.object)} if wanted else set[int]()
    if wanted is None or len(waiting) < 2 or any(row.table in ("stacks", "locks") for row in job.snapshot.unknowns):
        return None
    killed = killed_relatives(job, key[0])
    if not killed:
        return None
    parent = job.starter(key[0])
    family = (pid for pid in job.processes if pid == parent or job.starter(pid) in (parent, key[0]))
    others = ((pid, pid) for pid in family if pid not in waiting and job.may_act(pid))
    why = f"no process is in a with block of {wanted.kind} that pid {key[0]} polls to enter: value stacks of all calls"
    nobody = NoReleaser(why, tuple(killed), Absent.HOLDER_ENDED)
    return WaitEdge((nobody, *others), polled=True, words=f"a lock ({wanted.kind}) that nobody has", evidence=why)
