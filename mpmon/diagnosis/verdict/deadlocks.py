"""Threads that wait for each other's locks or tasks, for a lock that is never released, or for the result of a task that its
pool's worker took with it when it died: they stay blocked whatever the rest of the job does.
"""

from __future__ import annotations

from mpmon.diagnosis.edges.replaced import replaced
from mpmon.diagnosis.graph import Absent, Closed, Graph, NoReleaser
from mpmon.diagnosis.roles import POOL_WORKERS
from mpmon.diagnosis.stacks.waits import LOCKS, Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.stuck.stuck_set import stands_since

_STAY_BLOCKED = (*LOCKS, Wait.FUTURE_RESULT, Wait.POOL_RESULT)
"""Waits that nothing from outside the job could end."""


def deadlocks(job: JobState, graph: Graph) -> list[Closed]:
    """One row for each such thread."""
    threads = (key for pid in job.processes if job.is_alive(pid) for key in job.threads(pid))
    found = (graph.closed(key) for key in threads if job.wait_state(key).kind in _STAY_BLOCKED)
    return [closed for closed in found if closed and (_is_lost(job, graph, closed) or _is_cycle(job, graph, closed))]


def _is_lost(job: JobState, graph: Graph, closed: Closed) -> bool:
    edge = graph.node(closed.goal).edge
    ends = [target for target in edge.targets if isinstance(target, NoReleaser)] if edge else []
    if edge is None or not ends or len(ends) < len(edge.targets):
        return False
    return job.wait_state(closed.goal).kind in LOCKS or (
        all(end.reason is Absent.WORKER_REPLACED for end in ends) and _lost_meanwhile(job, closed.goal)
    )


def _lost_meanwhile(job: JobState, key: ThreadKey) -> bool:
    """A worker of the pool was replaced since the thread began to wait, and none runs a task, not even one that serves."""
    children = [pid for pid in job.clients.get(key[0], ()) if job.is_alive(pid)]
    workers = [pid for pid in children if job.role(pid).kind in POOL_WORKERS]
    if not all(job.wait_state((pid, pid)).kind is Wait.POOL_TASK for pid in workers):
        return False
    found = replaced(job, workers)
    return found is not None and job.processes[found.successor].start_time >= stands_since(job, key)


def _is_cycle(job: JobState, graph: Graph, closed: Closed) -> bool:
    core = frozenset(closed.core)
    return closed.goal in core and all(_waits_only_for(job, graph, key, core) for key in core)


def _waits_only_for(job: JobState, graph: Graph, key: ThreadKey, core: frozenset[ThreadKey]) -> bool:
    """Only threads of the core can end the wait: they hold the lock, or run the task whose result is awaited."""
    edge = graph.node(key).edge
    if edge is None or not core.issuperset(edge.targets):
        return False
    return edge.holder_known or (edge.exact and job.wait_state(key).kind is Wait.FUTURE_RESULT)
