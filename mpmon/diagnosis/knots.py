"""Threads that wait for locks of each other: they never get on, whoever else of the job does."""

from __future__ import annotations

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.graph import Closed, Graph, Target
from mpmon.diagnosis.waits import LOCKS


def knots(case: Case, graph: Graph) -> list[Closed]:
    """One row for each thread in such a cycle."""
    threads = (key for pid in case.processes if case.is_alive(pid) for key in case.threads(pid))
    found = (graph.closed(key) for key in threads if case.standing(key).kind in LOCKS)
    return [closed for closed in found if closed and closed.goal in closed.roots and _is_knot(graph, closed)]


def _is_knot(graph: Graph, closed: Closed) -> bool:
    return closed.cycle and all(_waits_for_holder(graph, root) for root in closed.roots)


def _waits_for_holder(graph: Graph, root: Target) -> bool:
    edge = graph.node(root).edge if isinstance(root, tuple) else None
    return edge is not None and edge.held
