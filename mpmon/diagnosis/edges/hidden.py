"""Processes that may not be read: their waits are unknown but for state and age, and they may hold any object."""

from __future__ import annotations

import msgspec

from mpmon.diagnosis.graph import Basis, Exited, NoReleaser, Target, WaitEdge
from mpmon.diagnosis.missing_data import hides_call
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.stacks.waits import EXCHANGES, Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState

_BY_HOLDERS = EXCHANGES | {Wait.POLL, Wait.LOCK, Wait.PROCESS_EVENT}
"""Waits that any process with the object open or mapped can end."""


def hidden_wait(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """If a process of the job is stopped: the unknown wait may be for any other process, so all of them have to stand still
    before the stopped one is blamed. `None` if nothing is stopped: an unknown wait may be anything.
    """
    stopped = next((pid for pid in job.stopped if pid != key[0]), None)
    if stopped is None or key in job.stacks or not hides_call(job, key) or job.motion(key) is not Motion.NOT_SCHEDULED:
        return None
    targets = tuple((pid, pid) for pid in job.processes if pid != key[0] and job.may_act(pid))
    evidence = f"what pid {key[0]} waits for cannot be read; pid {stopped} is stopped"
    return WaitEdge(targets, words="something that cannot be read", evidence=evidence)


def with_unread(job: JobState, key: ThreadKey, edge: WaitEdge) -> WaitEdge:
    """The same edge, plus processes whose open files are unknown, since they may hold the other end: until all could be
    read, "nobody" is unproven, and a death may be unrelated.
    """
    if not job.without_handles or edge.every or job.wait_state(key).kind not in _BY_HOLDERS:
        return edge
    unread = sorted(job.without_handles - {key[0]})
    others = [pid for pid in unread if job.may_act(pid)]
    if not others:
        return edge
    known = (_unsure(target) for target in edge.targets if not isinstance(target, NoReleaser))
    targets = tuple(dict.fromkeys((*known, *((pid, pid) for pid in others))))
    return msgspec.structs.replace(edge, targets=targets, basis=Basis.ASSUMED)


def _unsure(target: Target) -> Target:
    return msgspec.structs.replace(target, certain=False) if isinstance(target, Exited) else target
