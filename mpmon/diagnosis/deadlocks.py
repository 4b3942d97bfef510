"""Threads that wait for each other's locks, or for a lock that is never released: they stay blocked whatever the rest
of the job does.
"""

from __future__ import annotations

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.graph import Closed, Graph, Nobody, Target
from mpmon.diagnosis.waits import LOCKS


def deadlocks(case: Case, graph: Graph) -> list[Closed]:
    """One row for each such thread."""
    threads = (key for pid in case.processes if case.is_alive(pid) for key in case.threads(pid))
    found = (graph.closed(key) for key in threads if case.standing(key).kind in LOCKS)
    return [closed for closed in found if closed and (_is_lost(graph, closed) or _is_cycle(graph, closed))]


def _is_lost(graph: Graph, closed: Closed) -> bool:
    edge = graph.node(closed.goal).edge
    return edge is not None and all(isinstance(target, Nobody) for target in edge.targets)


def _is_cycle(graph: Graph, closed: Closed) -> bool:
    return closed.cycle and closed.goal in closed.roots and all(_waits_for_holder(graph, root) for root in closed.roots)


def _waits_for_holder(graph: Graph, root: Target) -> bool:
    edge = graph.node(root).edge if isinstance(root, tuple) else None
    return edge is not None and edge.held
