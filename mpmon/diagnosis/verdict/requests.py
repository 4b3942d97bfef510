"""Requests that a server will never answer while it idles legitimately, or ticks: it still answers new requests."""

from __future__ import annotations

from mpmon.diagnosis.edges.items import queue_of
from mpmon.diagnosis.edges.leaves import wakes_at
from mpmon.diagnosis.edges.serving import awaited, serves_one, takes_all
from mpmon.diagnosis.edges.supervisors import fed_by
from mpmon.diagnosis.event_loops import EventLoops
from mpmon.diagnosis.graph import Closed, Ending, Graph, NoReleaser, Status, Target
from mpmon.diagnosis.ipc.queues import QUEUES_FILE
from mpmon.diagnosis.libraries.torch_distributed import PASSED_ON
from mpmon.diagnosis.loops import ENDS_OF_TASKS, REQUESTS, SIGNS, SLEEP, THREAD, has_timers, may_answer, user_frame
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.progress.ticking import only_ticks
from mpmon.diagnosis.stacks.frames import calls, has, inner_machinery, is_user
from mpmon.diagnosis.stacks.waits import ENDS_OF_PROCESSES, Wait, context, in_barrier, opens_pipe
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.stuck.manager_calls import MANAGERS_FILE
from mpmon.diagnosis.thresholds import SOON_S
from mpmon.model import Frame


def is_server(job: JobState, key: ThreadKey) -> bool:
    """The main thread of a server."""
    return key[0] == key[1] and serves(job, key)


def serves(job: JobState, key: ThreadKey) -> bool:
    """The thread waits for requests, for connections, or for input that an external party may send."""
    if job.wait_state(key).kind is Wait.SERVICE or job.serves_in_c(key) or _opens_for_workers(job, key):
        return True
    return any(takes_all(item) for item in awaited(job, key)) or reads_input(job, key)


_TO_WRITE = 0o3
"""O_WRONLY and O_RDWR of open(2)."""


def _opens_for_workers(job: JobState, key: ThreadKey) -> bool:
    """A main program waits until somebody opens a named pipe to write, while all that it started wait for what it gives them."""
    row = job.blocked.get(key)
    if row is None or key[0] != key[1] or not (opens_pipe(row) and row.syscall == "openat"):
        return False
    flags, mates = next(iter(row.args[2:]), _TO_WRITE), job.helpmates(key[0])
    return not flags & _TO_WRITE and bool(mates) and fed_by(job, key[0], mates).issuperset(mates)


def stands_by(job: JobState, graph: Graph, key: ThreadKey) -> bool:
    """The thread serves, is next in line to serve, is handed what a serving one gets, watches for one of its child servers to
    end, only polls beside a main thread, or never does anything but sleep.
    """
    beside = serves(job, key) or job.only_polls(key) or job.only_sleeps(key)
    return beside or _is_next(job, graph, key) or _is_led(job, graph, key) or _watches_children(job, graph, key)


def rests(job: JobState, key: ThreadKey) -> bool:
    """The thread has nothing to do until it is given something: nobody waits for what it would do by itself."""
    if in_barrier(job.stacks.get(key)):
        return False
    return job.wait_state(key).idle or job.only_polls(key) or job.only_sleeps(key) or _only_consumes(job, key)


def _is_next(job: JobState, graph: Graph, key: ThreadKey) -> bool:
    """The thread waits for the lock of a serving thread, in the same function as that one: they take turns."""
    edge, stack = graph.node(key).edge, job.stacks.get(key)
    own = next((frame for frame in stack.frames if is_user(frame.file)), None) if stack else None
    if edge is None or own is None or not (edge.holder_known and edge.targets):
        return False
    return all(isinstance(row, tuple) and serves(job, row) and _is_in(job, row, own) for row in edge.targets)


def _is_led(job: JobState, graph: Graph, key: ThreadKey) -> bool:
    """The rank waits for data of ranks that serve, or that are led by these: `if rank == 0: ask = input()`, and a broadcast. Or
    the consumer of a queue waits for what such a process puts. Who waits for others to end gives nothing before.
    """
    led, from_server = [key], False
    for one in led:
        edge = graph.node(one).edge
        threads = [row for row in edge.targets if isinstance(row, tuple)] if edge else []
        passed_on = job.wait_state(one).operation in PASSED_ON or _only_consumes(job, one)
        if not passed_on or not edge or len(threads) < len(edge.targets):
            return False
        able = [row for row in threads if job.wait_state(row).kind not in ENDS_OF_PROCESSES]
        others = [row for row in able if not serves(job, row) and not job.only_polls(row)]
        # Of a process with a thread that only polls, the main thread is meant.
        from_server = from_server or any(serves(job, (row[0], row[0]) if job.only_polls(row) else row) for row in able)
        led += [row for row in others if row not in led]
    return from_server


def _only_consumes(job: JobState, key: ThreadKey) -> bool:
    """The thread waits for an item of a queue, or for its turn to, and its process has asked nobody for it; for an event, a
    barrier or a permit between processes; for a message over a pipe, an eventfd, or its input; or for data over a pair of
    sockets whose other end has read all that it sent, or over connections that their server watches, and over which it has
    never sent any. A manager waits for it in its client's stead, an event loop in its tasks'.
    """
    stack, kind, row = job.stacks.get(key), job.wait_state(key).kind, job.blocked.get(key)
    sockets = [item for item in job.waits_on(key) if item.kind == "socket"]
    if kind is Wait.EVENT_LOOP:
        waits = [task.waits for task in job.of(EventLoops).known(key)]
        return bool(waits) and _GIVEN.issuperset(waits)
    if kind is Wait.OTHER_CLIENTS:
        return has(stack, "/queue.py", ("get",))
    if has(stack, MANAGERS_FILE, ("_callmethod",)):
        return True
    if sockets and kind in (Wait.SOCKET, Wait.QUEUE_GET):
        return all(
            item.unread_by_peer == 0 or (item.sent_bytes == 0 and job.waiters.get(item.peer or "")) for item in sockets
        )
    if kind is Wait.PROCESS_EVENT or (key[0] != key[1] and kind in (Wait.CONDITION, Wait.THREAD_QUEUE)):
        return True
    if kind is Wait.LOCK:
        return any(use.max_value > 1 for item in job.waits_on(key) for use in job.uses.get(item.id, ()))
    if kind is Wait.PIPE_READ:
        signals = any(item.kind == "eventfd" for item in job.waits_on(key))
        return signals or (row is not None and row.args[:1] == (0,))
    if has(stack, QUEUES_FILE, ("get",)):
        return kind is Wait.QUEUE_GET and not _has_asked(job, key)
    return kind is Wait.QUEUE_GET and any(item.kind == "pipe" for item in job.waits_on(key))


_GIVEN = frozenset({*SIGNS, *ENDS_OF_TASKS, "queue get", SLEEP, REQUESTS})
"""What tasks wait for that only take what they are given."""


def _has_asked(job: JobState, key: ThreadKey) -> bool:
    """The process has put items into a queue from which one takes that puts into the queue for whose items the thread waits;
    as far as it is known who does.
    """
    own = [row for row in job.queues.values() if key[0] in row.putters]
    awaited_one = queue_of(job, key)
    suppliers = set(awaited_one.putters if awaited_one else ())
    return any(not (suppliers and row.getters) or not suppliers.isdisjoint(row.getters) for row in own)


def _is_in(job: JobState, key: ThreadKey, call: Frame) -> bool:
    stack = job.stacks.get(key)
    return stack is not None and any((row.function, row.file) == (call.function, call.file) for row in stack.frames)


def _watches_children(job: JobState, graph: Graph, key: ThreadKey) -> bool:
    """The thread's own code waits for its children in `multiprocessing.connection.wait`: a child that sends nothing wakes it
    when it ends.
    """
    edge, stack = graph.node(key).edge, job.stacks.get(key)
    asked = list(inner_machinery(stack))[-1:] if stack else []
    if edge is None or not any(calls(frame, "multiprocessing/connection.py", ("wait",)) for frame in asked):
        return False
    return all(isinstance(row, tuple) and row[0] in job.helpmates(key[0]) for row in edge.targets)


def reads_input(job: JobState, key: ThreadKey) -> bool:
    """The thread reads its standard input, a pipe or connection whose other end only external processes have."""
    objects = awaited(job, key) if key[0] == key[1] else []
    item = next(iter(objects), None)
    if len(objects) != 1 or item is None or item.kind not in ("pipe", "socket"):
        return False
    rows = job.holders.get(item.id, ())
    own = any(row.pid == key[0] and row.fd == 0 and row.reads for row in rows)
    return own and item.id in job.outsiders and not any(row.writes for row in rows if row.pid in job.processes)


def lost_requests(job: JobState, graph: Graph, goals: list[ThreadKey]) -> list[Closed]:
    """Below a legitimately idle server: requests that it gave a process of their own and that nothing can complete, and
    processes of the job that wait for their answers.

    Requests in the server's own threads are not considered: the next request may wake a waiting one.
    """
    idle = [goal for goal in goals if graph.node(goal).status is Status.IDLE]
    helpers = [(pid, pid) for goal in idle for pid in job.helpmates(goal[0])]
    requests = [key for key in helpers if serves_one(job, key) and _is_lost(graph, graph.closed(key))]
    asking = [
        key for key in helpers
        if (edge := graph.node(key).edge) and any(target in requests for target in edge.targets)
    ]  # fmt: skip
    found = [graph.closed(key) for key in (*requests, *asking)]
    return [closed for closed in found if closed is not None and _is_lost(graph, closed)]


def lost_work(job: JobState, graph: Graph, goals: list[ThreadKey]) -> list[Closed]:
    """Waits that no other process of the job can ever end, while the main threads only poll: a loop that prints how many
    items are left keeps running in a hung job as well.
    """
    watching = [goal for goal in goals if graph.node(goal).status is Status.LIVE]
    if not watching or not all(only_ticks(job, goal) or job.wait_state(goal).kind is Wait.SIGNAL for goal in watching):
        return []
    others: list[ThreadKey] = []
    for pid in job.processes:
        if job.may_act(pid):
            working = [key for key in job.working_threads(pid) if key not in goals]
            if any(_gets_on(job, graph, key) for key in working):
                return []
            others += working
    found = [graph.closed(key) for key in others]
    return [closed for closed in found if closed is not None and _is_lost(graph, closed)]


def _gets_on(job: JobState, graph: Graph, key: ThreadKey) -> bool:
    """The thread does more than tick and is not a library's service thread: a scheduler keeps running in a hung job."""
    live = graph.node(key).status is Status.LIVE
    return live and not only_ticks(job, key) and not job.serves_library(key)


def _is_lost(graph: Graph, closed: Closed | None) -> bool:
    """The chain ends in an action that nobody, or only the waiter itself, could perform, or in threads that by the kernel wait
    for each other; and no member may be woken by the next request.
    """
    if closed is None or any(graph.node(key).status is Status.IDLE for key in closed.members):
        return False
    cycle = closed.ending is Ending.CYCLE and (
        closed.exact or all(_waits_for_itself(graph, root) for root in closed.root_blockers)
    )
    return cycle or any(isinstance(root, NoReleaser) for root in closed.root_blockers)


def _waits_for_itself(graph: Graph, root: Target) -> bool:
    edge = graph.node(root).edge if isinstance(root, tuple) else None
    return edge is not None and edge.targets == (root,)


def own_requests(job: JobState, graph: Graph, goals: list[ThreadKey]) -> list[Closed]:
    """Tasks of a server, whose main thread is an event loop, that wait for a request to the same server that is never served, or
    for each other: every thread that could serve it waits likewise, for instance because the thread pool is exhausted.
    """
    loops = [goal for goal in goals if job.wait_state(goal).kind is Wait.EVENT_LOOP and not _may_answer(job, goal)]
    found: list[Closed] = []
    for loop in loops:
        others = (key for key in job.threads(loop[0]) if key != loop)
        tasks = [key for key in others if job.shape(key).runs or context(job.stacks.get(key))]
        if tasks and (all(_asks_own(job, graph, key) for key in tasks) or _is_exhausted(job, graph, loop, tasks)):
            alike = {_place(job, key): key for key in reversed(tasks)}
            found += [
                Closed(key, (key,), (key,), ending=Ending.CYCLE, path=(key,), assumed=(key,)) for key in alike.values()
            ]
    return found


def _place(job: JobState, key: ThreadKey) -> tuple[tuple[str, int], ...]:
    """Where a thread is: threads at one place are told of once."""
    stack = job.stacks.get(key)
    return tuple((frame.file, frame.line) for frame in (stack.frames if stack else ()))


def _asks_own(job: JobState, graph: Graph, key: ThreadKey) -> bool:
    """The thread waits for an answer from its own process."""
    edge = graph.node(key).edge
    waits = job.wait_state(key).kind is Wait.SOCKET and job.motion(key) is Motion.NOT_SCHEDULED
    return waits and edge is not None and all(isinstance(row, tuple) and row[0] == key[0] for row in edge.targets)


def _is_exhausted(job: JobState, graph: Graph, loop: ThreadKey, tasks: list[ThreadKey]) -> bool:
    """More of the loop's tasks wait for threads than threads run, and all of these wait inside a library for each other, or for
    the loop, as for a connection of a pool: none gets free for the requests that would give one back. What the job's own code
    waits for, the next request may bring, in a coroutine; a task that sleeps, a timer or a handler of a signal likewise.
    """
    rows = job.of(EventLoops).known(loop)
    asking = [row for row in rows if row.waits == THREAD]
    others = job.may_be_called(loop[0]) or any(
        (row.waits == SLEEP and user_frame(row)) or has_timers(row) for row in rows
    )
    return (
        len(asking) > len(tasks) and not others and all(_waits_within(job, graph, key, {loop, *tasks}) for key in tasks)
    )


def _waits_within(job: JobState, graph: Graph, key: ThreadKey, among: set[ThreadKey]) -> bool:
    """The thread waits inside a library for some of these, for long if it has a time limit."""
    edge, ends_at = graph.node(key).edge, wakes_at(job.blocked.get(key))
    stands = job.motion(key) is Motion.NOT_SCHEDULED and (ends_at is None or ends_at - job.now > SOON_S)
    return stands and bool(job.shape(key).asks) and edge is not None and among.issuperset(edge.targets)


def _may_answer(job: JobState, loop: ThreadKey) -> bool:
    """A task of the loop may send the answer although none of its threads moves; where the tasks are not known, the loop may
    be awaiting something from another process.
    """
    tasks = job.of(EventLoops).known(loop)
    if not tasks:
        return _has_clients(job, loop)
    return any(map(may_answer, tasks))


def _has_clients(job: JobState, loop: ThreadKey) -> bool:
    """One of the loop's connections leads to another process."""
    held = job.held_by.get(loop[0], frozenset())
    items = [item for item in job.waits_on(loop) if item.kind == "socket" and not item.listens]
    return any(item.peer not in held for item in items)
