"""Who is responsible among tasks, those who wait for their results, and threads of one process."""

from __future__ import annotations

from mpmon.diagnosis.graph import Ending
from mpmon.diagnosis.responsibility.members import pids_asked, waits_for_room
from mpmon.diagnosis.stacks.frames import has
from mpmon.diagnosis.stacks.waits import MAY_BE_ASKED, REQUESTS, Context, Wait, context, in_barrier
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.manager_calls import client_calls
from mpmon.diagnosis.stuck.stuck_set import StuckSet


def unfinished_tasks(stuck: StuckSet) -> list[ThreadKey]:
    """Of members that wait for each other: the tasks (user code that a library called), if the others are clients that
    called a library; empty if a task waits for a held lock, for room, or in a barrier.
    """
    among = stuck.among
    tasks = [key for key in among if stuck.job.shape(key).runs or _is_servant(stuck, key)]
    clients = [key for key in among if key not in tasks and is_client(stuck, key)]
    in_circle = stuck.is_mutual and len(tasks) + len(clients) == len(among)
    if not in_circle or not tasks or not clients:
        return []
    needs = {key: edge for key in tasks if (edge := stuck.graph.node(key).edge)}
    told = any(
        edge.holder_known or waits_for_room(stuck, key) or in_barrier(stuck.job.stacks.get(key))
        for key, edge in needs.items()
    )
    return [] if told or "put" in client_calls(stuck).values() else tasks


def is_client(stuck: StuckSet, key: ThreadKey) -> bool:
    """The thread called a library and waits for the result."""
    return bool(stuck.job.shape(key).asks) or stuck.wait_state(key).kind in REQUESTS


def _is_servant(stuck: StuckSet, key: ThreadKey) -> bool:
    """The thread runs user code on behalf of another process."""
    found = context(stuck.job.stacks.get(key))
    return found is not None and found[0] in (Context.DATALOADER_WORKER, Context.POOL_WORKER)


def awaited_tasks(stuck: StuckSet) -> list[ThreadKey]:
    """Of threads that wait for each other: the tasks of an executor, if the others only wait for results."""
    found = {key: context(stuck.job.stacks.get(key)) for key in stuck.closed.core}
    tasks = [key for key, row in found.items() if row and row[0] is Context.EXECUTOR_THREAD]
    others = [key for key in found if key not in tasks]
    return tasks if others and all(_awaits_result(stuck, key, tasks) for key in others) else []


def _awaits_result(stuck: StuckSet, key: ThreadKey, tasks: list[ThreadKey]) -> bool:
    """The thread waits for a result, or its event loop for one of these alone."""
    edge = stuck.graph.node(key).edge
    loop = stuck.wait_state(key).kind is Wait.EVENT_LOOP and edge is not None and edge.exact
    return stuck.wait_state(key).kind in REQUESTS or (loop and set(tasks).issuperset(stuck.targets(key)))


def stuck_inside(stuck: StuckSet) -> list[ThreadKey]:
    """Several threads of one process that only threads of it could help, if all others wait for that process, such as the
    clients of a server whose handlers wait for one more request; without those of the threads that wait for a library's tasks.
    """
    if stuck.ending is not Ending.OPEN:
        return []
    inside = [key for key in stuck.closed.core if (pids := pids_asked(stuck, key)) and pids == {key[0]}]
    homes = {pid for pid, _ in inside}
    others = [key for key in stuck.closed.core if key not in inside]
    if len(inside) < 2 or len(homes) != 1 or not others:
        return []
    if not all(key[0] in homes or pids_asked(stuck, key) == homes for key in others):
        return []
    return [key for key in inside if not stuck.job.shape(key).asks] or inside


def wait_for_request(stuck: StuckSet) -> bool:
    """Several tasks of one process, which take all threads of their executor, wait for what another thread is to do, while more
    tasks are in its queue.
    """
    if stuck.ending not in (Ending.OPEN, Ending.CYCLE):
        return False
    full = [key for key in stuck.closed.core if stuck.job.is_full(key) and stuck.wait_state(key).kind in MAY_BE_ASKED]
    return len(full) > 1 and len({pid for pid, _ in full}) == 1


def joining_threads(stuck: StuckSet) -> list[ThreadKey]:
    """The thread that waits for the ends of others of its process, all of which wait for one more party of a barrier, or for
    room in a queue between threads.
    """
    inside = [key for key in stuck.closed.core if _needs_another_thread(stuck, key)]
    outside = [key for key in stuck.closed.core if key not in inside]
    one = len({pid for pid, _ in stuck.closed.core}) == 1
    joins = all(stuck.wait_state(key).kind is Wait.JOIN_THREAD for key in outside)
    return outside if one and inside and joins else []


def _needs_another_thread(stuck: StuckSet, key: ThreadKey) -> bool:
    stack = stuck.job.stacks.get(key)
    return in_barrier(stack) or (has(stack, "/queue.py", ("put",)))


def traced(stuck: StuckSet) -> ThreadKey | None:
    """A stopped thread that the root blocker, in another process, traces by ptrace(2)."""
    held = stuck.members_in(Wait.STOPPED)
    return next(
        (key for key in held if stuck.root and stuck.root[0] != key[0] and stuck.root in stuck.targets(key)), None
    )
