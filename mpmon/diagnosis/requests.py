"""Requests that a server will never answer while it idles legitimately, or ticks: it still answers new requests."""

from __future__ import annotations

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.edges.connections import awaited, serves_one, takes_all
from mpmon.diagnosis.frames import calls, inner_machinery, is_user
from mpmon.diagnosis.graph import Closed, Graph, Nobody, Status, Target
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.progress.ticking import only_ticks
from mpmon.diagnosis.roles import HELPERS
from mpmon.diagnosis.waits import Wait, context
from mpmon.model import Frame, KernelObject


def is_server(case: Case, key: ThreadKey) -> bool:
    """The main thread of a server."""
    return key[0] == key[1] and serves(case, key)


def serves(case: Case, key: ThreadKey) -> bool:
    """It waits for requests, for connections, or for input that an external party may send."""
    if case.standing(key).kind is Wait.SERVICE or case.serves_in_c(key):
        return True
    objects = awaited(case, key)
    return any(takes_all(item) for item in objects) or _reads_input(case, key, objects)


def stands_by(case: Case, graph: Graph, key: ThreadKey) -> bool:
    """It serves, is next in line to serve, or watches for one of its child servers to end."""
    return serves(case, key) or _is_next(case, graph, key) or _watches_children(case, graph, key)


def _is_next(case: Case, graph: Graph, key: ThreadKey) -> bool:
    """It waits for the lock of a serving thread, in the very function that one serves in: they take turns."""
    edge, stack = graph.node(key).edge, case.stacks.get(key)
    own = next((frame for frame in stack.frames if is_user(frame.file)), None) if stack else None
    if edge is None or own is None or not edge.held:
        return False
    return all(isinstance(row, tuple) and serves(case, row) and _is_in(case, row, own) for row in edge.targets)


def _is_in(case: Case, key: ThreadKey, call: Frame) -> bool:
    stack = case.stacks.get(key)
    return stack is not None and any((row.function, row.file) == (call.function, call.file) for row in stack.frames)


def _watches_children(case: Case, graph: Graph, key: ThreadKey) -> bool:
    """Its own code is in `multiprocessing.connection.wait` for its children: those that send nothing wake it by ending."""
    edge, stack = graph.node(key).edge, case.stacks.get(key)
    asked = list(inner_machinery(stack))[-1:] if stack else []
    if edge is None or not any(calls(frame, "multiprocessing/connection.py", ("wait",)) for frame in asked):
        return False
    return all(isinstance(row, tuple) and row[0] in case.helpmates(key[0]) for row in edge.targets)


def _reads_input(case: Case, key: ThreadKey, objects: list[KernelObject]) -> bool:
    """Its standard input is a pipe or a connection whose other end only external processes have."""
    item = next(iter(objects), None)
    if key[0] != key[1] or len(objects) != 1 or item is None or item.kind not in ("pipe", "socket"):
        return False
    rows = case.holders.get(item.id, ())
    own = any(row.pid == key[0] and row.fd == 0 and row.reads for row in rows)
    return own and item.id in case.outsiders and not any(row.writes for row in rows if row.pid in case.processes)


def lost_requests(case: Case, graph: Graph, goals: list[ThreadKey]) -> list[Closed]:
    """Below a legitimately idle server: requests that it gave a process of their own and that nothing can complete, and
    processes of the job that wait for their answers.

    Requests in the server's own threads are not considered: the next request may wake a waiting one.
    """
    idle = [goal for goal in goals if graph.node(goal).status is Status.IDLE]
    helpers = [(pid, pid) for goal in idle for pid in case.helpmates(goal[0])]
    requests = [key for key in helpers if serves_one(case, key) and _is_lost(graph, graph.closed(key))]
    asking = [
        key for key in helpers
        if (edge := graph.node(key).edge) and any(target in requests for target in edge.targets)
    ]  # fmt: skip
    found = [graph.closed(key) for key in (*requests, *asking)]
    return [closed for closed in found if closed is not None and _is_lost(graph, closed)]


def lost_work(case: Case, graph: Graph, goals: list[ThreadKey]) -> list[Closed]:
    """Waits that other processes of the job can never end, while the main threads only poll: a loop that prints how
    many are left goes on in a hung job as well.
    """
    watching = [goal for goal in goals if graph.node(goal).status is Status.LIVE]
    if not watching or not all(only_ticks(case, goal) or case.standing(goal).kind is Wait.SIGNAL for goal in watching):
        return []
    others: list[ThreadKey] = []
    for pid in case.processes:
        if case.is_alive(pid) and case.role(pid).kind not in HELPERS:
            working = [key for key in case.working_threads(pid) if key not in goals]
            if any(_gets_on(case, graph, key) for key in working):
                return []
            others += working
    found = [graph.closed(key) for key in others]
    return [closed for closed in found if closed is not None and _is_lost(graph, closed)]


def _gets_on(case: Case, graph: Graph, key: ThreadKey) -> bool:
    """It does more than tick, and is not only there for its library: a scheduler runs on whatever hangs."""
    live = graph.node(key).status is Status.LIVE
    return live and not only_ticks(case, key) and not case.serves_library(key)


def _is_lost(graph: Graph, closed: Closed | None) -> bool:
    """It ends in something that nobody can do, or only the waiter itself could, or in threads that, by the kernel, wait for
    each other; and nothing that the next request may wake is among its members.
    """
    if closed is None or any(graph.node(key).status is Status.IDLE for key in closed.members):
        return False
    cycle = closed.cycle and (closed.exact or all(_waits_for_itself(graph, root) for root in closed.roots))
    return cycle or any(isinstance(root, Nobody) for root in closed.roots)


def _waits_for_itself(graph: Graph, root: Target) -> bool:
    edge = graph.node(root).edge if isinstance(root, tuple) else None
    return edge is not None and edge.targets == (root,)


def own_requests(case: Case, graph: Graph, goals: list[ThreadKey]) -> list[Closed]:
    """Tasks of a server whose main thread is an event loop, in a request to that server itself that it does not take
    up: all that could serve it waits likewise, say because the thread pool is exhausted.
    """
    loops = [goal for goal in goals if case.standing(goal).kind is Wait.EVENT_LOOP and not _has_clients(case, goal)]
    found: list[Closed] = []
    for loop in loops:
        others = (key for key in case.threads(loop[0]) if key != loop)
        tasks = [key for key in others if case.shape(key).runs or context(case.stacks.get(key))]
        if tasks and all(_asks_own(case, graph, key) for key in tasks):
            found += [Closed(key, (key,), (key,), cycle=True, path=(key,), assumed=(key,)) for key in tasks]
    return found


def _asks_own(case: Case, graph: Graph, key: ThreadKey) -> bool:
    """It waits for an answer from its own process."""
    edge = graph.node(key).edge
    waits = case.standing(key).kind is Wait.SOCKET and case.motion(key) is Motion.NOT_SCHEDULED
    return waits and edge is not None and all(isinstance(row, tuple) and row[0] == key[0] for row in edge.targets)


def _has_clients(case: Case, loop: ThreadKey) -> bool:
    """One of its connections leads to another process, whose answer it may wait for."""
    held = case.held_by.get(loop[0], frozenset())
    items = [item for item in case.waits_on(loop) if item.kind == "socket" and not item.listens]
    return any(item.peer not in held for item in items)
