"""Who is responsible among servers, their clients and event loops."""

from __future__ import annotations

from collections import defaultdict
from itertools import islice

from mpmon.diagnosis.edges.items import asked
from mpmon.diagnosis.edges.serving import unserved
from mpmon.diagnosis.event_loops import EventLoops
from mpmon.diagnosis.graph import Ending, Target
from mpmon.diagnosis.libraries import TURNS
from mpmon.diagnosis.loops import BODY, may_hear
from mpmon.diagnosis.responsibility.members import in_users_code
from mpmon.diagnosis.stacks.frames import in_call
from mpmon.diagnosis.stacks.waits import ENDS_OF_PROCESSES, Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.manager_calls import client_calls
from mpmon.diagnosis.stuck.stuck_set import StuckSet

_ANSWERS = (Wait.SOCKET, Wait.QUEUE_GET, Wait.POLL)
"""Waits for an answer over a connection."""


def left_connection(stuck: StuckSet) -> tuple[ThreadKey, ThreadKey, list[ThreadKey]] | None:
    """A client that waits for an answer over a connection that no thread of the server serves: the client, the accepting
    thread, and the threads that serve other connections.
    """
    if stuck.ending not in (Ending.EXTERNAL, Ending.DESERTED, Ending.OPEN, Ending.CYCLE):
        return None
    found = ((key, unserved(stuck.job, key)) for key in stuck.members_in(*_ANSWERS))
    return next(((key, *row) for key, row in found if row), None)


def loop_keeper(stuck: StuckSet) -> ThreadKey | None:
    """A thread that, in a callback of its event loop, waits for the end of threads or processes that wait for an answer
    from that loop.
    """
    if not stuck.is_mutual:
        return None
    asking = set(stuck.members_in(*_ANSWERS))
    for key in stuck.members_in(*ENDS_OF_PROCESSES):
        targets = stuck.targets(key)
        answers = all(isinstance(row, tuple) and row in asking and key in stuck.targets(row) for row in targets)
        if targets and answers and in_call(stuck.job.stacks.get(key), TURNS):
            return key
    return None


def exchanging(stuck: StuckSet) -> list[ThreadKey]:
    """Clients of a manager's objects that each wait for another client's action, unless all put or all get; in a circle, those
    that close it.
    """
    calls = client_calls(stuck)
    alike = set(calls.values()) <= {"put"} or set(calls.values()) <= {"get"}
    found = [*(stuck.at_end if stuck.ending is Ending.CYCLE else calls)]
    return [] if alike or len({pid for pid, _ in found}) < 2 else found


def takers(stuck: StuckSet) -> list[ThreadKey]:
    """If all clients of a manager's queue wait for room in it: the members that join them instead of taking items out."""
    return stuck.members_in(*ENDS_OF_PROCESSES) if set(client_calls(stuck).values()) == {"put"} else []


def asked_by_all(stuck: StuckSet) -> list[ThreadKey]:
    """The server that waits for a request from any of several clients, all of which wait for its answer; else nobody."""
    readers, served = stuck.members_in(Wait.QUEUE_GET), hub(stuck)
    clients = [key for key in readers if key not in served]
    return served if len(clients) > 1 and set(served) < set(readers) else []


def hub(stuck: StuckSet) -> list[ThreadKey]:
    """The member that each of the others needs, and that needs none of them in particular: a server for several clients, or
    one whose clients need not be in the job.
    """
    among = stuck.among
    members = list(among)
    may_act = [key for key in members if key in stuck.job.stacks and not stuck.wait_state(key).idle]
    may_act = [key for key in may_act if in_users_code(stuck, key)] or may_act
    rivals = _rivals(stuck)
    needs = {key: _needed(stuck, key, rivals.get(key, set())).intersection(members) for key in members}
    needed = frozenset[Target]().union(*needs.values())
    for found in [key for key in may_act if key in needed and not needs[key]]:
        depend = {found}
        while more := {key for key in members if key not in depend and needs[key] & depend}:
            depend |= more
        if len(depend) == len(members):
            return [found]
    return []


def _needed(stuck: StuckSet, key: ThreadKey, rivals: set[ThreadKey]) -> frozenset[Target]:
    """Those without whom a member cannot go on: of all that have the other end, the one that is seen to be meant. An event
    loop whose tasks await no connection serves whoever comes.
    """
    edge, tasks = stuck.graph.node(key).edge, stuck.job.of(EventLoops).known(key)
    if edge is None or (tasks and stuck.wait_state(key).kind is Wait.EVENT_LOOP and not any(map(may_hear, tasks))):
        return frozenset()
    meant = asked(stuck.job, key, (target for target in edge.targets if isinstance(target, tuple)))
    givers = (target for target in edge.targets if target not in rivals)
    needed = meant if len(meant) == 1 else list(givers if edge.every else islice(givers, 2))
    return frozenset(needed) if edge.every or len(needed) == 1 else frozenset()


def _rivals(stuck: StuckSet) -> dict[ThreadKey, set[ThreadKey]]:
    """The members that wait for the very same thing as a member, which they can thus not give; only where there are any."""
    alike: dict[tuple[object, ...], set[ThreadKey]] = defaultdict(set)
    for key in stuck.closed.members:
        if names := tuple(item.id for item in stuck.job.waits_on(key)):
            alike[(stuck.wait_state(key).kind, *names)].add(key)
    return {key: keys for keys in alike.values() if len(keys) > 1 for key in keys}


def owing_answers(stuck: StuckSet) -> list[ThreadKey]:
    """Service threads with code of the job that wait for the next request, or tasks of a server that wait for the rest of a
    request, of members that still wait for an answer.
    """
    threads = [key for key in stuck.closed.core if stuck.job.is_read_from(key) and in_users_code(stuck, key)]
    loops = stuck.job.of(EventLoops)
    return threads or [key for key in stuck.closed.core if any(row.waits == BODY for row in loops.held_up(key))]


def not_accepting(stuck: StuckSet) -> list[ThreadKey]:
    """Servers in whose queue the connection of another member lies: whatever they wait for, they do not accept it."""
    waits = [key for key in stuck.closed.core if any(item.listener for item in stuck.job.waits_on(key))]
    servers = {target for key in waits for target in stuck.targets(key)}
    return [key for key in stuck.closed.core if key in servers and key not in waits and in_users_code(stuck, key)]
