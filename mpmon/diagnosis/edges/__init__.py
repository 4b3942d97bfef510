"""From the call a thread waits in to the targets it waits for: one function per kind of wait, in the table `EDGES`.

Every function returns the targets that could end the wait. Too many targets make mpmon cautious (any of them may end the
wait), too few make it wrong, so the set is narrowed only by facts: who holds the other end, who is idle, who has exited.

Modules: `servants` (DataLoader, pools), `messages` (pipes, queues, sockets), `semaphores` (locks and permits between
processes), `file_locks`, `blocks` (locks of a program's own making), `taken` (items that another process took), `connections`
(the server of a socket, a manager's clients), `threads` (inside one process), `natives` (native threads), `ends` (joins, exit),
`output` (of a subprocess), `polls` (conditions that a polling loop tests), `ranks` (collectives, rendezvous, keys of the store),
`file_servers` (file systems that do not respond), `tasks` (user code that any library runs), `loops` (asyncio tasks), `remote`
(torch's RPC), `dead` (exited processes), `hidden` (unreadable processes).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mpmon.diagnosis.edges.blocks import entered_block
from mpmon.diagnosis.edges.connections import clients, serves_one
from mpmon.diagnosis.edges.dead import crashed_relatives, with_crashed
from mpmon.diagnosis.edges.ends import (
    end_by_signal,
    end_of_interpreter,
    end_of_process,
    end_of_thread,
    launched_ranks,
)
from mpmon.diagnosis.edges.file_locks import file_lock
from mpmon.diagnosis.edges.file_servers import file_server
from mpmon.diagnosis.edges.hidden import hidden_wait, with_unread
from mpmon.diagnosis.edges.loops import stuck_loop
from mpmon.diagnosis.edges.messages import left_unread, message
from mpmon.diagnosis.edges.natives import left_loop, name_server, native_thread
from mpmon.diagnosis.edges.polls import polled_work
from mpmon.diagnosis.edges.ranks import collective, rendezvous, store_key
from mpmon.diagnosis.edges.remote import remote_call, remote_end
from mpmon.diagnosis.edges.semaphores import queue_item, semaphore
from mpmon.diagnosis.edges.servants import (
    end_or_callback,
    event_loop,
    future_result,
    loader_batch,
    pool_result,
    started_process,
)
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
from mpmon.diagnosis.event_loops import EventLoops
from mpmon.diagnosis.frames import asking, called_by_user, is_user
from mpmon.diagnosis.graph import Absent, Basis, External, Node, NoReleaser, Status, Target, WaitEdge
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.job_state import COMES_BY_READING, JobState
from mpmon.diagnosis.loops import SLEEP, user_frame
from mpmon.diagnosis.progress.activity import reads_for_ever, signs_of_life
from mpmon.diagnosis.progress.loop_progress import round_since
from mpmon.diagnosis.progress.motion import Motion, share, share_from
from mpmon.diagnosis.progress.pauses import pause_s
from mpmon.diagnosis.progress.state_change import acts_by_clock, may_give_up, moved_nothing
from mpmon.diagnosis.progress.ticking import only_beats
from mpmon.diagnosis.retried_locks import locks_of_others
from mpmon.diagnosis.roles import SERVICE_ROLES
from mpmon.diagnosis.shapes import in_task
from mpmon.diagnosis.thresholds import BY_CLOCK_S, PATIENCE_S, POLLS_SHARE, RETRY_S, SOON_S
from mpmon.diagnosis.waits import Wait, context, opens_pipe, polled
from mpmon.model import CLOCK, CLOCKS, Blocked

_NEED_FRAMES = frozenset({Wait.FUTEX, Wait.LOCK})
"""Waits that cannot be interpreted from the kernel's facts alone."""

_ALWAYS_WAITS = frozenset({Wait.LAUNCHER})
"""Loops that only monitor other processes: that they run is no progress."""


def node(job: JobState, key: ThreadKey) -> Node:
    """The node of one thread."""
    found = _node(job, key)
    return msgspec.structs.replace(found, bystander=True) if _stands_beside(job, found) else found


def _stands_beside(job: JobState, found: Node) -> bool:
    """A thread that only sleeps, and counts or logs, in an endless loop, or polls in one and is not the main thread; or one that
    accepts connections.
    """
    key = found.key
    if found.status is Status.LEAF:
        beats = job.only_sleeps(key) or (key[0] != key[1] and job.tests(key) == ())
        return beats and job.motion(key) is Motion.POLLING
    return found.edge is not None and any(item.listens for item in job.waits_on(key))


def _node(job: JobState, key: ThreadKey) -> Node:
    wait_state, motion = job.wait_state(key), job.motion(key)
    if not job.is_alive(key[0]):
        return Node(key, Status.LEAF)
    if wait_state.kind is Wait.STOPPED:
        edge = _tracer(job, key)
        return Node(key, Status.WAITS, edge) if edge else Node(key, Status.LEAF)
    if wait_state.kind is Wait.TIMER:
        return Node(key, Status.LIVE)
    if job.was_asked_to_end(key):
        return Node(key, Status.LEAF)
    if wait_state.idle:
        return Node(key, Status.IDLE)
    if edge := asked_tasks(job, key):
        return Node(key, Status.WAITS, edge)
    if wait_state.kind not in _ALWAYS_WAITS and motion is Motion.PROGRESSING:
        return Node(key, Status.LIVE)
    if mount := job.silent_mount(key):
        return Node(key, Status.WAITS, file_server(job, key, mount))
    if wait_state.kind is Wait.GPU:
        # A working GPU and a spinning one look alike for minutes: see `gpus.spins`.
        return Node(key, Status.LIVE)
    if owner := gil_owner(job, key):
        return Node(key, Status.WAITS, gil_edge(job, owner))
    if wait_state.kind is Wait.FILE_LOCK and (edge := kept_by_gil(job, key)):
        return Node(key, Status.WAITS, edge)
    if left_unread(job, key):
        return Node(key, Status.LEAF)
    if edge := stuck_loop(job, key):
        return Node(key, Status.WAITS, edge)
    if (edge := entered_block(job, key)) and not _may_act_by_clock(job, key):
        return Node(key, Status.WAITS, edge)
    tested = polled(job.stacks.get(key)) if wait_state.kind is not Wait.SIGNAL else None
    if tested and (edge := polled_work(job, key, tested)):
        return Node(key, Status.WAITS, with_crashed(job, key, edge) if tested.kind is Wait.FILE_MARK else edge)
    if motion is Motion.POLLING and _may_act_by_clock(job, key):
        return Node(key, Status.LIVE)
    if wait_state.kind is Wait.PROCESS_EVENT and only_beats(job, key) and not _owes_messages(job, key):
        # It works once per pause until the event is set: `while not stop.wait(1)`.
        return Node(key, Status.LIVE)
    # A loop that tests a condition no process of the job can change only sleeps.
    edge_of = None if tested else EDGES.get(wait_state.kind)
    if edge_of is other_threads and job.role(key[0]).kind == "manager" and serves_one(job, key):
        # It waits in a user object of a manager, which only the manager's clients can reach.
        edge_of = clients
    if wait_state.kind is Wait.POLL and (edge := left_loop(job, key)):
        return Node(key, Status.WAITS, edge)
    if wait_state.kind in (Wait.POLL, Wait.EVENT_LOOP) and _ends_by_itself(job, key):
        renews = wait_state.kind is Wait.POLL and motion is Motion.POLLING and _asks_soon_again(job, key)
        edge = message(job, key) if renews else None
        # A loop that watches only its own wake-up pipe wakes up for its timers, whatever these do.
        others = [target for target in edge.targets if not _is_itself(target, key)] if edge else []
        among_us = others and not any(isinstance(target, External) for target in others)
        return Node(key, Status.WAITS, edge) if among_us else Node(key, Status.LIVE)
    if wait_state.kind is Wait.UNKNOWN and (hidden := hidden_wait(job, key)):
        return Node(key, Status.WAITS, hidden)
    if motion is Motion.NOT_SCHEDULED and _gives_up_soon(job, key):
        return Node(key, Status.LIVE)
    if edge_of is None:
        status = _leaf(job, key, motion)
        polls = status is Status.LEAF and motion is Motion.POLLING
        # A polling thread with a file open that another process has locked is trying to get the lock.
        edge = file_lock(job, key) if polls and locks_of_others(job, key[0]) else None
        edge = _other_opener(job, key) if status is Status.LEAF and opens_pipe(job.blocked.get(key)) else edge
        return Node(key, Status.WAITS, edge) if edge else Node(key, status)
    if key not in job.stacks and wait_state.kind in _NEED_FRAMES and key[0] not in job.foreign:
        # A bare futex says nothing about who could release it.
        return _native_node(job, key) if motion is Motion.NOT_SCHEDULED else Node(key, Status.LIVE)
    edge = name_server(job, key) or edge_of(job, key)
    if edge is None:
        return Node(key, Status.LIVE)
    if wait_state.kind is Wait.EVENT_LOOP and _has_only_timers(job, key, edge):
        return Node(key, Status.LEAF)
    return Node(key, Status.WAITS, with_unread(job, key, with_crashed(job, key, edge)))


def _is_itself(target: Target, key: ThreadKey) -> bool:
    """The other end of what the thread waits for is its own."""
    return target == key or (isinstance(target, NoReleaser) and target.reason is Absent.OWN_END)


def _tracer(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """The process of the job that keeps a stopped process in ptrace(2)."""
    process = job.processes[key[0]]
    by = process.tracer_pid if process.state == "t" else None
    if not by or by not in job.processes or not job.is_alive(by):
        return None
    evidence = f"pid {key[0]} is held by pid {by}: TracerPid of /proc/{key[0]}/status"
    words = f"{job.role(by).name} to detach from it"
    return WaitEdge(((by, by),), every=True, basis=Basis.KERNEL, words=words, evidence=evidence)


def _native_node(job: JobState, key: ThreadKey) -> Node:
    """The node of a native thread in a futex, by its C frames if they were read."""
    fact = job.native_facts.get(key)
    if fact is None:
        return Node(key, Status.HIDDEN)
    if fact.is_at_rest:
        return Node(key, Status.IDLE)
    edge = native_thread(job, key)
    return Node(key, Status.WAITS, edge) if edge else Node(key, Status.LIVE if fact.certain else Status.HIDDEN)


def _may_act_by_clock(job: JobState, key: ThreadKey) -> bool:
    """The polling function also reads a clock, or compares a count of attempts with a limit, so it may act once enough time
    has passed, such as a loop that flushes its buffer every half minute.
    """
    stack, past = job.stacks.get(key), job.thread_history(key)
    if stack is None or past is None or stack.contents is None or job.now - job.stands_since(key) > BY_CLOCK_S:
        return False
    if not CLOCKS.isdisjoint(stack.tests or ()):
        # It leaves its loop once a time has come.
        return True
    polls = len(asking(stack)) - 1
    if any((place, number) == (polls, CLOCK) for place, number, _ in stack.contents):
        return acts_by_clock(stack)
    return may_give_up([sample for sample in past.samples if sample.at > job.stands_since(key)], stack.limits)


def _other_opener(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """Opening a named pipe waits until the other end is opened, fifo(7): any user program that makes progress may do so, and any
    script once the command that it waits for has ended.
    """
    mains = [(pid, pid) for pid in job.processes if pid != key[0] and job.role(pid).kind not in SERVICE_ROLES]
    mains = [main for main in mains if job.is_alive(main[0]) and not opens_pipe(job.blocked.get(main))]
    alive = tuple(main for main in mains if _runs_user_code(job, main) or _waits_for_command(job, main, key[0]))
    return WaitEdge(alive, words="the other end of a named pipe to be opened") if alive else None


def _runs_user_code(job: JobState, key: ThreadKey) -> bool:
    stack = job.stacks.get(key)
    own = stack is not None and any(is_user(row.file) for row in stack.frames)
    return own and key[0] not in job.foreign and node(job, key).status is Status.LIVE


def _waits_for_command(job: JobState, key: ThreadKey, pid: int) -> bool:
    """A program that is not Python, such as a shell, waits for the end of children that end by themselves; not for `pid`."""
    if key[0] not in job.foreign or job.wait_state(key).kind is not Wait.CHILD:
        return False
    edge = node(job, key).edge
    ends = [target for target in edge.targets if isinstance(target, tuple)] if edge else []
    # A command that opens a named pipe itself would ask about this program in turn.
    commands = [end for end in ends if not opens_pipe(job.blocked.get(end))]
    return pid not in {end for end, _ in ends} and any(node(job, end).status is Status.LIVE for end in commands)


def _gives_up_soon(job: JobState, key: ThreadKey) -> bool:
    """User code gave this wait a time limit that ends soon, so the thread continues by itself, as after a sleep; or a thread
    that runs a library's code alone did, such as a scheduler's, if it does more than poll.
    """
    blocked, stack = job.blocked.get(key), job.stacks.get(key)
    if blocked is None or blocked.ran_at is None or stack is None:
        return False
    by_user = called_by_user(stack)
    if not by_user and (key[0] == key[1] or any(is_user(frame.file) for frame in stack.frames)):
        return False
    wakes_at = _wakes_at(blocked)
    if wakes_at is None or not 0.0 <= wakes_at - job.now < SOON_S:
        return False
    return wakes_at - blocked.ran_at > RETRY_S or (by_user and not takes_up_again(job, key))


def _asks_soon_again(job: JobState, key: ThreadKey) -> bool:
    pause = pause_s(job.blocked.get(key))
    return pause is not None and pause <= RETRY_S


def _ends_by_itself(job: JobState, key: ThreadKey) -> bool:
    """An event loop that waits for its own next timer, which from outside may be a heartbeat or work."""
    blocked = job.blocked.get(key)
    return blocked is not None and blocked.timeout_s is not None and blocked.timeout_s < SOON_S


def _has_only_timers(job: JobState, key: ThreadKey, edge: WaitEdge) -> bool:
    """An event loop that sleeps until its next timer: it watches nothing but its own wake-up socket, which no thread
    would use.
    """
    blocked = job.blocked.get(key)
    timed = blocked is not None and blocked.timeout_s is not None and len(blocked.waits_on) < 2
    return timed and all(isinstance(target, External) for target in edge.targets)


def _leaf(job: JobState, key: ThreadKey, motion: Motion) -> Status:
    """The status of a thread that waits for nothing in the job: LIVE if its wait ends by itself, else LEAF."""
    if motion is Motion.UNKNOWN:
        return Status.LEAF if _only_naps(job, key) else Status.LIVE
    if motion is Motion.NOT_SCHEDULED and job.wait_state(key).kind is Wait.RUNNING:
        # The thread is runnable, but the machine has no CPU for it.
        return Status.LIVE
    blocked = job.blocked.get(key)
    ends_soon = blocked is not None and blocked.wakes_at is not None and blocked.wakes_at - job.now < SOON_S
    if ends_soon and (motion is Motion.NOT_SCHEDULED or (motion is Motion.POLLING and _sleeps_long(blocked))):
        return Status.LIVE
    if motion is Motion.POLLING and _polls_for_the_dead(job, key):
        return Status.LEAF
    if motion in (Motion.POLLING, Motion.BUSY_LOOP) and signs_of_life(job, key):
        return Status.LIVE
    if motion is Motion.POLLING and _computes_between(job, key):
        # The thread computes between short sleeps, which samples seldom show.
        return Status.LIVE
    if motion is Motion.POLLING and (_manages(job, key) or (job.tests(key) == () and job.acts(key))):
        return Status.LIVE
    children = [(pid, pid) for pid in job.helpmates(key[0])] if motion is Motion.POLLING else []
    if any(_pauses(job, child) or _works_on_a_task(job, child) for child in children):
        # The awaited change may come from a child whose sleep ends soon, or that is in a task.
        return Status.LIVE
    if motion is Motion.BUSY_LOOP and context(job.stacks.get(key)) is None and not starves_others(job, key):
        # Top-level code may compute as long as it likes, unless it loops without progress.
        endless = reads_for_ever(job, key[0]) or (_goes_round(job, key) and _keeps_waiting(job, key))
        return Status.LEAF if endless else Status.LIVE
    return Status.LEAF


def _polls_for_the_dead(job: JobState, key: ThreadKey) -> bool:
    """Whatever the loop looks at, such as a database, a Python process that had to change it has crashed and is still a zombie,
    so that the loop does not look after it either; and no other process or thread of the job is left.
    """
    if not job.tests(key) or job.acts(key) or job.others_at_work(key) or job.programs_beside(key[0]):
        return False
    crashed = (job.processes.get(pid) for pid in crashed_relatives(job, key[0]))
    # The kernel keeps no command line of a zombie, only the name of its program.
    return any(row is not None and "python" in row.name for row in crashed)


def _computes_between(job: JobState, key: ThreadKey) -> bool:
    """The thread has used more of a CPU than polling takes, ever since it was watched or since it began to poll."""
    past = job.thread_history(key)
    return past is not None and max(share(past.samples), share_from(past, job.stands_since(key), job.now)) > POLLS_SHARE


def _manages(job: JobState, key: ThreadKey) -> bool:
    """A library's own thread that looks after something from time to time, such as time limits: what it may do is not known."""
    stack = job.stacks.get(key)
    return key[0] != key[1] and stack is not None and not any(is_user(frame.file) for frame in stack.frames)


def _works_on_a_task(job: JobState, key: ThreadKey) -> bool:
    opens = opens_pipe(job.blocked.get(key))
    return in_task(job.stacks.get(key)) and not opens and node(job, key).status is Status.LIVE


def _pauses(job: JobState, key: ThreadKey) -> bool:
    """The thread is in a sleep that is too long for polling and about to end; or in an event loop in which a task of the job's
    code sleeps: whether that one gets anything done is not known.
    """
    blocked, kind = job.blocked.get(key), job.wait_state(key).kind
    if kind is Wait.EVENT_LOOP:
        return any(row.waits == SLEEP and user_frame(row) for row in job.of(EventLoops).known(key))
    wakes_at = _wakes_at(blocked) if _sleeps_long(blocked) else None
    return kind is Wait.SLEEP and wakes_at is not None and 0.0 <= wakes_at - job.now < SOON_S


def _sleeps_long(blocked: Blocked | None) -> bool:
    """A sleep of known start that is too long for polling."""
    wakes_at = _wakes_at(blocked)
    return (
        blocked is not None
        and wakes_at is not None
        and blocked.ran_at is not None
        and wakes_at - blocked.ran_at > RETRY_S
    )


def _wakes_at(blocked: Blocked | None) -> float | None:
    """When a thread's wait with a time limit is over; `None` if it has none."""
    if blocked is None or blocked.wakes_at is not None or blocked.timeout_s is None or blocked.ran_at is None:
        return blocked.wakes_at if blocked else None
    return blocked.ran_at + blocked.timeout_s


def _goes_round(job: JobState, key: ThreadKey) -> bool:
    """The thread computes in one loop without progress, and has done no I/O meanwhile."""
    past, life = job.thread_history(key), job.history.life(job.processes[key[0]])
    since = round_since(past.samples) if past else None
    if past is None or since is None:
        return False
    return not (life and life.io_at and life.io_at[-1] >= since) or moved_nothing(past.samples, since)


def _owes_messages(job: JobState, key: ThreadKey) -> bool:
    """The thread is a main thread, while another process waits for a message that does not come."""
    mains = [(pid, pid) for pid in job.processes if pid != key[0] and job.is_alive(pid)]
    return key[0] == key[1] and any(
        job.wait_state(main).kind in COMES_BY_READING and job.motion(main) in (Motion.NOT_SCHEDULED, Motion.POLLING)
        for main in mains
    )


def _keeps_waiting(job: JobState, key: ThreadKey) -> bool:
    """Another process has nothing to do meanwhile: one of its service processes is idle, or another process is blocked in a
    wait other than for an end.
    """
    others = [(pid, pid) for pid in job.processes if pid != key[0] and job.is_alive(pid)]
    servants = job.clients.get(key[0], ())
    return any(
        row[0] in servants if job.wait_state(row).idle else job.wait_state(row).kind in _MESSAGES
        and job.motion(row) in (Motion.NOT_SCHEDULED, Motion.POLLING)
        for row in others
    )  # fmt: skip


_MESSAGES = frozenset({
    Wait.COLLECTIVE, Wait.QUEUE_GET, Wait.QUEUE_PUT, Wait.PIPE_READ, Wait.PIPE_WRITE, Wait.SOCKET, Wait.LOADER_BATCH,
    Wait.POOL_RESULT, Wait.FUTURE_RESULT, Wait.LOCK, Wait.PROCESS_EVENT, Wait.REMOTE_CALL, Wait.STORE_KEY,
})  # fmt: skip
"""Waits for an action of another thread or process, not for its end."""


def _only_naps(job: JobState, key: ThreadKey) -> bool:
    """A single-threaded program that is not Python, found in the same sleep by every sample, without reading or
    writing.
    """
    past, process = job.thread_history(key), job.processes[key[0]]
    calls = (
        {(sample.blocked.syscall, sample.blocked.args) for sample in past.samples if sample.blocked} if past else set()
    )
    if (
        past is None
        or len(calls) != 1
        or len(past.samples) < 3
        or past.samples[-1].at - past.samples[0].at < PATIENCE_S
    ):
        return False
    alone = key[0] in job.foreign and process.threads == 1 and job.wait_state(key).kind is Wait.SLEEP
    life = job.history.life(process)
    return alone and not signs_of_life(job, key) and not (life and life.io_at)


EDGES: dict[Wait, Callable[[JobState, ThreadKey], WaitEdge | None]] = {
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
    Wait.FORK_SERVER: started_process,
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
