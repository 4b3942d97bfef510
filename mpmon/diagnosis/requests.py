"""Requests that a server will never answer, while it idles by right, or ticks: whoever asks it next is answered."""

from __future__ import annotations

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.graph import Closed, Graph, Nobody, Status
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.needs.connections import serves_one
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.progress.ticking import only_ticks
from mpmon.diagnosis.roles import HELPERS
from mpmon.diagnosis.waits import Wait, context
from mpmon.model import KernelObject


def is_server(case: Case, key: ThreadKey) -> bool:
    """A main thread that waits for requests, or for connections."""
    waits = case.standing(key).kind is Wait.SERVICE or any(takes_all(item) for item in case.waits_on(key))
    return key[0] == key[1] and waits


def takes_all(item: KernelObject) -> bool:
    """It takes connections, or, connected with nobody, what anybody sends it."""
    return item.listens or (item.path or "").endswith((" to 0.0.0.0:0", " to [::]:0"))


def lost_requests(case: Case, graph: Graph, goals: list[ThreadKey]) -> list[Closed]:
    """Below a server that idles by right: requests that it gave a process of their own and that nothing can bring to an end,
    and those of the job who wait for their answers.

    Requests in threads of the server are not looked at: the next request may wake one that waits.
    """
    idle = [goal for goal in goals if graph.node(goal).status is Status.IDLE]
    helpers = [(pid, pid) for goal in idle for pid in case.helpmates(goal[0])]
    requests = [key for key in helpers if serves_one(case, key) and _is_lost(graph, graph.closed(key))]
    asking = [
        key for key in helpers
        if (need := graph.node(key).need) and any(target in requests for target in need.targets)
    ]  # fmt: skip
    found = [graph.closed(key) for key in (*requests, *asking)]
    return [closed for closed in found if closed is not None and _is_lost(graph, closed)]


def lost_work(case: Case, graph: Graph, goals: list[ThreadKey]) -> list[Closed]:
    """What others of the job keep from one another, or lack for ever, while the main threads only look in from time to time:
    a loop that prints how many are left goes on in a job that hangs as well.
    """
    watching = [goal for goal in goals if graph.node(goal).status is Status.LIVE]
    if not watching or not all(only_ticks(case, goal) or case.standing(goal).kind is Wait.SIGNAL for goal in watching):
        return []
    alive = [pid for pid in case.processes if case.is_alive(pid) and case.role(pid).kind not in HELPERS]
    others = [key for pid in alive for key in case.working_threads(pid) if key not in goals]
    if any(graph.node(key).status is Status.LIVE and not only_ticks(case, key) for key in others):
        return []
    found = [graph.closed(key) for key in others]
    return [closed for closed in found if closed is not None and _is_lost(graph, closed)]


def _is_lost(graph: Graph, closed: Closed | None) -> bool:
    """It ends in something that nobody can do, or in threads of which the kernel says that they wait for each other, and
    nobody whom the next request may wake is among those who could help.
    """
    if closed is None or any(graph.node(key).status is Status.IDLE for key in closed.members):
        return False
    return (closed.cycle and closed.exact) or any(isinstance(root, Nobody) for root in closed.roots)


def own_requests(case: Case, graph: Graph, goals: list[ThreadKey]) -> list[Closed]:
    """Tasks of a server whose main thread is an event loop, in a request to that server itself that it does not take up:
    all there is to serve it does the same, say because the pool of threads has no more.
    """
    loops = [goal for goal in goals if case.standing(goal).kind is Wait.EVENT_LOOP and not _has_clients(case, goal)]
    found: list[Closed] = []
    for loop in loops:
        others = (key for key in case.threads(loop[0]) if key != loop)
        tasks = [key for key in others if case.shape(key).runs or context(case.stacks.get(key))]
        if tasks and all(_asks_own(case, graph, key) for key in tasks):
            found += [Closed(key, (key,), (key,), cycle=True, path=(key,), exact=False) for key in tasks]
    return found


def _asks_own(case: Case, graph: Graph, key: ThreadKey) -> bool:
    """It waits for an answer of its own process."""
    need = graph.node(key).need
    waits = case.standing(key).kind is Wait.SOCKET and case.motion(key) is Motion.FROZEN
    return waits and need is not None and all(isinstance(row, tuple) and row[0] == key[0] for row in need.targets)


def _has_clients(case: Case, loop: ThreadKey) -> bool:
    """A connection of it leads to another process, which may be what its answers wait for."""
    held = case.held_by.get(loop[0], frozenset())
    items = [item for item in case.waits_on(loop) if item.kind == "socket" and not item.listens]
    return any(item.peer not in held for item in items)
