"""From the call a thread waits in to the targets it waits for: one function per kind of wait, in the table `EDGES`.

Every function returns the targets that could end the wait. Too many targets make mpmon careful (any of them may end
it), too few make it wrong, so a set is only narrowed by facts: who holds the other end, who is idle, who ended.

Modules: `servants` (DataLoader, pools), `objects` (pipes, queues, locks between processes), `connections` (who serves a
socket, a manager's clients), `threads` (inside one process), `natives` (its threads that are not Python's), `ends`
(joins, exit), `output` (of a subprocess), `polls` (what a polling loop tests), `ranks` (collectives, rendezvous, keys
of the store), `file_servers` (file systems that do not respond), `tasks` (what any library runs), `loops` (tasks of
asyncio), `remote` (torch's RPC), `dead` (exited processes), `hidden` (unreadable ones).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.edges.connections import clients, serves_one
from mpmon.diagnosis.edges.dead import with_crashed
from mpmon.diagnosis.edges.ends import (
    end_by_signal,
    end_of_interpreter,
    end_of_process,
    end_of_thread,
    launched_ranks,
)
from mpmon.diagnosis.edges.file_servers import file_server
from mpmon.diagnosis.edges.hidden import hidden_wait, with_unread
from mpmon.diagnosis.edges.loops import stuck_loop
from mpmon.diagnosis.edges.natives import left_loop, name_server, native_thread
from mpmon.diagnosis.edges.objects import file_lock, message, queue_item, semaphore
from mpmon.diagnosis.edges.polls import polled_work
from mpmon.diagnosis.edges.ranks import collective, rendezvous, store_key
from mpmon.diagnosis.edges.remote import remote_call, remote_end
from mpmon.diagnosis.edges.servants import end_or_callback, event_loop, future_result, loader_batch, pool_result
from mpmon.diagnosis.edges.tasks import asked_tasks
from mpmon.diagnosis.edges.threads import (
    gil_edge,
    gil_owner,
    kept_by_gil,
    native_mutex,
    other_threads,
    starves_others,
    takes_up_again,
    thread_lock,
)
from mpmon.diagnosis.frames import asking, called_by_user, is_user
from mpmon.diagnosis.graph import External, Node, Status, WaitEdge
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.progress.activity import signs_of_life
from mpmon.diagnosis.progress.loop_progress import round_since
from mpmon.diagnosis.progress.motion import Motion, share
from mpmon.diagnosis.progress.ticking import only_beats
from mpmon.diagnosis.roles import SERVANTS
from mpmon.diagnosis.thresholds import BY_CLOCK_S, PATIENCE_S, POLLS_SHARE, RETRY_S, SOON_S
from mpmon.diagnosis.waits import Wait, context, polled
from mpmon.model import CLOCK, Blocked

_NEED_FRAMES = frozenset({Wait.FUTEX, Wait.LOCK})
"""Waits of which the kernel alone tells too little."""

_ALWAYS_WAITS = frozenset({Wait.LAUNCHER})
"""Loops that only monitor others: that they run says nothing."""


def node(case: Case, key: ThreadKey) -> Node:
    """The node of one thread."""
    found = _node(case, key)
    return msgspec.structs.replace(found, bystander=True) if _stands_beside(case, found) else found


def _stands_beside(case: Case, found: Node) -> bool:
    """It polls in a thread of its own, in a loop that never exits; or it accepts connections."""
    key = found.key
    if found.status is Status.LEAF:
        return key[0] != key[1] and case.motion(key) is Motion.POLLING and case.tests(key) == ()
    outside = found.edge is not None and all(isinstance(target, External) for target in found.edge.targets)
    return outside and any(item.listens for item in case.waits_on(key))


def _node(case: Case, key: ThreadKey) -> Node:
    standing, motion = case.standing(key), case.motion(key)
    if not case.is_alive(key[0]):
        return Node(key, Status.LEAF)
    if standing.kind is Wait.STOPPED:
        return Node(key, Status.LEAF)
    if standing.idle:
        return Node(key, Status.IDLE)
    if edge := asked_tasks(case, key):
        return Node(key, Status.WAITS, edge)
    if standing.kind not in _ALWAYS_WAITS and motion is Motion.PROGRESSING:
        return Node(key, Status.LIVE)
    if mount := case.silent_mount(key):
        return Node(key, Status.WAITS, file_server(case, key, mount))
    if standing.kind is Wait.GPU:
        # A working GPU and a spinning one look alike for minutes: see `gpus.spins`.
        return Node(key, Status.LIVE)
    if owner := gil_owner(case, key):
        return Node(key, Status.WAITS, gil_edge(case, owner))
    if standing.kind is Wait.FILE_LOCK and (edge := kept_by_gil(case, key)):
        return Node(key, Status.WAITS, edge)
    if edge := stuck_loop(case, key):
        return Node(key, Status.WAITS, edge)
    tested = polled(case.stacks.get(key)) if standing.kind is not Wait.SIGNAL else None
    if tested and (edge := polled_work(case, key, tested)):
        return Node(key, Status.WAITS, edge)
    if motion is Motion.POLLING and _may_act_by_clock(case, key):
        return Node(key, Status.LIVE)
    if standing.kind is Wait.PROCESS_EVENT and only_beats(case, key):
        # It works once per pause, until it is told to stop: `while not stop.wait(1)`.
        return Node(key, Status.LIVE)
    # A loop that tests what no process of the job does only sleeps.
    edge_of = None if tested else EDGES.get(standing.kind)
    if edge_of is other_threads and case.role(key[0]).kind == "manager" and serves_one(case, key):
        # In an object of the user's that only clients can reach.
        edge_of = clients
    if standing.kind is Wait.POLL and (edge := left_loop(case, key)):
        return Node(key, Status.WAITS, edge)
    if standing.kind in (Wait.POLL, Wait.EVENT_LOOP) and _ends_by_itself(case, key):
        edge = message(case, key) if standing.kind is Wait.POLL and motion is Motion.POLLING else None
        among_us = edge is not None and not any(isinstance(target, External) for target in edge.targets)
        return Node(key, Status.WAITS, edge) if among_us else Node(key, Status.LIVE)
    if standing.kind is Wait.UNKNOWN and (hidden := hidden_wait(case, key)):
        return Node(key, Status.WAITS, hidden)
    if motion is Motion.NOT_SCHEDULED and _gives_up_soon(case, key):
        return Node(key, Status.LIVE)
    if edge_of is None:
        status = _leaf(case, key, motion)
        polls = status is Status.LEAF and motion is Motion.POLLING
        # A polling thread with a file open that another process has locked is trying to get the lock.
        edge = file_lock(case, key) if polls and case.locks_of_others(key[0]) else None
        edge = _other_opener(case, key) if status is Status.LEAF and _opens_pipe(case, key) else edge
        return Node(key, Status.WAITS, edge) if edge else Node(key, status)
    if key not in case.stacks and standing.kind in _NEED_FRAMES and not case.is_foreign(key[0]):
        # A bare futex says nothing about who could release it.
        return _native_node(case, key) if motion is Motion.NOT_SCHEDULED else Node(key, Status.LIVE)
    edge = name_server(case, key) or edge_of(case, key)
    if edge is None:
        return Node(key, Status.LIVE)
    if standing.kind is Wait.EVENT_LOOP and _has_only_timers(case, key, edge):
        return Node(key, Status.LEAF)
    return Node(key, Status.WAITS, with_unread(case, key, with_crashed(case, key, edge)))


def _native_node(case: Case, key: ThreadKey) -> Node:
    """A thread that is not Python's, in a futex, by its C frames if they were read."""
    fact = case.native_facts.get(key)
    if fact is None:
        return Node(key, Status.HIDDEN)
    if fact.is_at_rest:
        return Node(key, Status.IDLE)
    edge = native_thread(case, key)
    return Node(key, Status.WAITS, edge) if edge else Node(key, Status.LIVE if fact.certain else Status.HIDDEN)


def _may_act_by_clock(case: Case, key: ThreadKey) -> bool:
    """The function that polls looks at a clock as well, so it may do something once enough time has passed, as one that
    sends what it has gathered every half minute.
    """
    stack = case.stacks.get(key)
    if stack is None or stack.contents is None or case.now - case.stands_since(key) > BY_CLOCK_S:
        return False
    polls = len(asking(stack)) - 1
    return any((place, number) == (polls, CLOCK) for place, number, _ in stack.contents)


def _opens_pipe(case: Case, key: ThreadKey) -> bool:
    """It is in open(2) of a named pipe, by its kernel function (fs/pipe.c)."""
    row = case.blocked.get(key)
    return row is not None and row.wchan == "wait_for_partner"


def _other_opener(case: Case, key: ThreadKey) -> WaitEdge | None:
    """Opening a named pipe waits for its other end to be opened, fifo(7): any user program that makes progress may do
    so.
    """
    mains = ((pid, pid) for pid in case.processes if pid != key[0] and not case.is_foreign(pid))
    others = [main for main in mains if case.role(main[0]).kind not in SERVANTS and not _opens_pipe(case, main)]
    users = [
        main for main in others if (stack := case.stacks.get(main)) and any(is_user(row.file) for row in stack.frames)
    ]
    alive = tuple(main for main in users if node(case, main).status is Status.LIVE)
    return WaitEdge(alive, words="the other end of a named pipe to be opened") if alive else None


def _gives_up_soon(case: Case, key: ThreadKey) -> bool:
    """The user's code gave its wait a limit, so it continues by itself, as from a sleep."""
    blocked, stack = case.blocked.get(key), case.stacks.get(key)
    if blocked is None or blocked.ran_at is None or stack is None or not called_by_user(stack):
        return False
    wakes_at = blocked.wakes_at
    if wakes_at is None and blocked.timeout_s is not None:
        wakes_at = blocked.ran_at + blocked.timeout_s
    if wakes_at is None or not 0.0 <= wakes_at - case.now < SOON_S:
        return False
    return wakes_at - blocked.ran_at > RETRY_S or not takes_up_again(case, key)


def _ends_by_itself(case: Case, key: ThreadKey) -> bool:
    """An event loop that waits for its own next timer: a heartbeat cannot be told from work from outside."""
    blocked = case.blocked.get(key)
    return blocked is not None and blocked.timeout_s is not None and blocked.timeout_s < SOON_S


def _has_only_timers(case: Case, key: ThreadKey, edge: WaitEdge) -> bool:
    """An event loop that sleeps until its next timer: it watches nothing but its own wake-up socket, which no thread
    would use.
    """
    blocked = case.blocked.get(key)
    timed = blocked is not None and blocked.timeout_s is not None and len(blocked.waits_on) < 2
    return timed and all(isinstance(target, External) for target in edge.targets)


def _leaf(case: Case, key: ThreadKey, motion: Motion) -> Status:
    """It waits for nothing in the job: does its wait end by itself?"""
    if motion is Motion.UNKNOWN:
        return Status.LEAF if _only_naps(case, key) else Status.LIVE
    if motion is Motion.NOT_SCHEDULED and case.standing(key).kind is Wait.RUNNING:
        # It is runnable, and the machine has no CPU for it.
        return Status.LIVE
    blocked = case.blocked.get(key)
    ends_soon = blocked is not None and blocked.wakes_at is not None and blocked.wakes_at - case.now < SOON_S
    if ends_soon and (motion is Motion.NOT_SCHEDULED or (motion is Motion.POLLING and _sleeps_long(blocked))):
        return Status.LIVE
    if motion in (Motion.POLLING, Motion.BUSY_LOOP) and signs_of_life(case, key):
        return Status.LIVE
    if motion is Motion.POLLING and (past := case.past(key)) and share(past.looks) > POLLS_SHARE:
        # It computes between short sleeps, and samples seldom find it computing.
        return Status.LIVE
    if motion is Motion.POLLING and any(_pauses(case, (pid, pid)) for pid in case.helpmates(key[0])):
        # What it polls for may come from a child that has something to do in a moment.
        return Status.LIVE
    if motion is Motion.BUSY_LOOP and context(case.stacks.get(key)) is None and not starves_others(case, key):
        # Top-level code may compute as long as it likes, unless it loops without progress.
        return Status.LEAF if _goes_round(case, key) and _keeps_waiting(case, key) else Status.LIVE
    return Status.LEAF


def _pauses(case: Case, key: ThreadKey) -> bool:
    """Its sleep is longer than a polling one, and about to end."""
    blocked = case.blocked.get(key)
    wakes_at = blocked.wakes_at if blocked and _sleeps_long(blocked) else None
    return case.standing(key).kind is Wait.SLEEP and wakes_at is not None and 0.0 <= wakes_at - case.now < SOON_S


def _sleeps_long(blocked: Blocked | None) -> bool:
    """A sleep, seen to begin, that is too long for polling."""
    if blocked is None or blocked.wakes_at is None or blocked.ran_at is None:
        return False
    return blocked.wakes_at - blocked.ran_at > RETRY_S


def _goes_round(case: Case, key: ThreadKey) -> bool:
    """It computes in one loop without progress, and has read and written nothing meanwhile."""
    past, life = case.past(key), case.history.life(case.processes[key[0]])
    since = round_since(past.looks) if past else None
    return since is not None and not (life and life.io_at and life.io_at[-1] >= since)


def _keeps_waiting(case: Case, key: ThreadKey) -> bool:
    """Others of its job have nothing to do meanwhile: its service processes idle, or another process is blocked in a
    wait other than for an end.
    """
    others = [(pid, pid) for pid in case.processes if pid != key[0] and case.is_alive(pid)]
    servants = case.clients.get(key[0], ())
    return any(
        row[0] in servants if case.standing(row).idle else case.standing(row).kind in _MESSAGES
        and case.motion(row) in (Motion.NOT_SCHEDULED, Motion.POLLING)
        for row in others
    )  # fmt: skip


_MESSAGES = frozenset({
    Wait.COLLECTIVE, Wait.QUEUE_GET, Wait.QUEUE_PUT, Wait.PIPE_READ, Wait.PIPE_WRITE, Wait.SOCKET, Wait.LOADER_BATCH,
    Wait.POOL_RESULT, Wait.FUTURE_RESULT, Wait.LOCK, Wait.PROCESS_EVENT, Wait.REMOTE_CALL, Wait.STORE_KEY,
})  # fmt: skip
"""Waits for others to act, not for them to end."""


def _only_naps(case: Case, key: ThreadKey) -> bool:
    """A single-threaded program that is not Python, found in the same sleep by every sample, without reading or
    writing.
    """
    past, process = case.past(key), case.processes[key[0]]
    calls = {(look.blocked.syscall, look.blocked.args) for look in past.looks if look.blocked} if past else set()
    if past is None or len(calls) != 1 or len(past.looks) < 3 or past.looks[-1].at - past.looks[0].at < PATIENCE_S:
        return False
    alone = case.is_foreign(key[0]) and process.threads == 1 and case.standing(key).kind is Wait.SLEEP
    life = case.history.life(process)
    return alone and not signs_of_life(case, key) and not (life and life.io_at)


EDGES: dict[Wait, Callable[[Case, ThreadKey], WaitEdge | None]] = {
    Wait.LOADER_BATCH: loader_batch,
    Wait.POOL_RESULT: pool_result,
    Wait.FUTURE_RESULT: future_result,
    Wait.JOIN_PROCESS: end_or_callback,
    Wait.CHILD: end_of_process,
    Wait.JOIN_THREAD: end_of_thread,
    Wait.EXIT: end_of_interpreter,
    Wait.LAUNCHER: launched_ranks,
    Wait.SIGNAL: end_by_signal,
    Wait.QUEUE_GET: queue_item,
    Wait.QUEUE_PUT: queue_item,
    Wait.PIPE_READ: message,
    Wait.PIPE_WRITE: message,
    Wait.POLL: message,
    Wait.EVENT_LOOP: event_loop,
    Wait.SOCKET: message,
    Wait.OTHER_CLIENTS: clients,
    Wait.LOCK: semaphore,
    Wait.PROCESS_EVENT: semaphore,
    Wait.FILE_LOCK: file_lock,
    Wait.THREAD_LOCK: thread_lock,
    Wait.FUTEX: native_mutex,
    Wait.THREAD_QUEUE: other_threads,
    Wait.CONDITION: other_threads,
    Wait.COLLECTIVE: collective,
    Wait.RENDEZVOUS: rendezvous,
    Wait.STORE_KEY: store_key,
    Wait.REMOTE_CALL: remote_call,
    Wait.REMOTE_END: remote_end,
}
"""Kinds without a row are leaves: they wait for nothing in the job."""
