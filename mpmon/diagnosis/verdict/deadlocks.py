"""Threads that wait for each other's locks or tasks, for a lock that is never released, or for the result of a task that its
pool's worker took with it when it died: they stay blocked whatever the rest of the job does.
"""

from __future__ import annotations

from mpmon.diagnosis.graph import Absent, Closed, Graph, NoReleaser
from mpmon.diagnosis.stacks.waits import LOCKS, Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState

_STAY_BLOCKED = (*LOCKS, Wait.FUTURE_RESULT, Wait.POOL_RESULT)


def deadlocks(job: JobState, graph: Graph) -> list[Closed]:
    """One row for each such thread."""
    threads = (key for pid in job.processes if job.is_alive(pid) for key in job.threads(pid))
    found = (graph.closed(key) for key in threads if job.wait_state(key).kind in _STAY_BLOCKED)
    return [closed for closed in found if closed and (_is_lost(job, graph, closed) or _is_cycle(job, graph, closed))]


def _is_lost(job: JobState, graph: Graph, closed: Closed) -> bool:
    edge = graph.node(closed.goal).edge
    of_lock = job.wait_state(closed.goal).kind in LOCKS
    return edge is not None and all(
        isinstance(target, NoReleaser) and (of_lock or target.reason is Absent.WORKER_REPLACED)
        for target in edge.targets
    )


def _is_cycle(job: JobState, graph: Graph, closed: Closed) -> bool:
    core = frozenset(closed.core)
    return closed.goal in core and all(_waits_only_for(job, graph, key, core) for key in core)


def _waits_only_for(job: JobState, graph: Graph, key: ThreadKey, core: frozenset[ThreadKey]) -> bool:
    """Only threads of the core can end the wait: they hold the lock, or run the task whose result is awaited."""
    edge = graph.node(key).edge
    if edge is None or not core.issuperset(edge.targets):
        return False
    return edge.holder_known or (edge.exact and job.wait_state(key).kind is Wait.FUTURE_RESULT)
