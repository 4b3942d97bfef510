"""What one thread is in the graph: live, idle, a leaf, or waiting, and for whom.

`WAYS` is a table of questions, of which the first that has an answer counts: facts that need no frames come first, then what
is known of the thread's library, then the function of its kind of wait.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

import msgspec

from mpmon.diagnosis.edges.answers import may_be_answered
from mpmon.diagnosis.edges.blocks import entered_block
from mpmon.diagnosis.edges.brokers import broker
from mpmon.diagnosis.edges.by_kind import EDGES
from mpmon.diagnosis.edges.connections import accepts_nobody
from mpmon.diagnosis.edges.dead import with_crashed
from mpmon.diagnosis.edges.file_locks import file_lock, retried_locks
from mpmon.diagnosis.edges.file_servers import file_server
from mpmon.diagnosis.edges.gil import gil_edge, gil_owner, kept_by_gil, starver, starves_others
from mpmon.diagnosis.edges.hidden import hidden_wait, with_unread
from mpmon.diagnosis.edges.leaves import (
    asks_soon_again,
    computes_between,
    ends_by_itself,
    gives_up_soon,
    goes_round,
    keeps_waiting,
    manages,
    may_act_by_clock,
    owes_messages,
    pauses,
    polls_for_the_dead,
    sleeps_long,
    turns,
    wakes_at,
)
from mpmon.diagnosis.edges.loops import resting_loop, stuck_loop
from mpmon.diagnosis.edges.managers import clients
from mpmon.diagnosis.edges.messages import left_unread, message
from mpmon.diagnosis.edges.natives import left_loop, name_server, native_thread
from mpmon.diagnosis.edges.polls import polled_work
from mpmon.diagnosis.edges.serving import serves_one
from mpmon.diagnosis.edges.tasks import asked_tasks
from mpmon.diagnosis.edges.threads import other_threads
from mpmon.diagnosis.event_loops import EventLoops
from mpmon.diagnosis.graph import Absent, Basis, External, Node, NoReleaser, Status, Target, WaitEdge
from mpmon.diagnosis.libraries.rows import PollRow
from mpmon.diagnosis.loops import polls
from mpmon.diagnosis.progress.activity import reads_for_ever, signs_of_life
from mpmon.diagnosis.progress.loop_progress import matches_short_text
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.progress.pauses import pause_s
from mpmon.diagnosis.progress.ticking import only_beats
from mpmon.diagnosis.roles import HELPERS, SERVICE_ROLES
from mpmon.diagnosis.stacks.frames import has, is_user
from mpmon.diagnosis.stacks.shapes import in_task
from mpmon.diagnosis.stacks.waits import SIGNAL_CALLS, Wait, context, opens_pipe, polled
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.thresholds import FROZEN_AFTER_S, PATIENCE_S, SOON_S, STOPS_AGAIN
from mpmon.model import Blocked

_ALWAYS_WAITS = frozenset({Wait.LAUNCHER, Wait.RENDEZVOUS})
"""Loops that only watch for other processes: that they run, or look at a clock, is no progress."""

_NEED_FRAMES = frozenset({Wait.FUTEX, Wait.LOCK})
"""Waits that cannot be interpreted from the kernel's facts alone."""

Answer = WaitEdge | Status | None
"""Whom a thread waits for, or what it is otherwise; `None` if a question does not decide."""


def node(job: JobState, key: ThreadKey) -> Node:
    """The node of one thread."""
    found = next(answer for way in WAYS if (answer := way(job, key)) is not None)
    waits = isinstance(found, WaitEdge)
    row = Node(key, Status.WAITS, found) if waits else Node(key, found)
    looks = row.status is Status.LEAF and job.motion(key) is Motion.POLLING
    asks = _might_bring(job, key) if looks else ()
    return msgspec.structs.replace(row, polls=looks, asks=asks, bystander=_stands_beside(job, row))


def _might_bring(job: JobState, key: ThreadKey) -> tuple[ThreadKey, ...]:
    """The other threads of its process, and its children, but those that do nothing for others."""
    others = (*job.others_at_work(key), *((pid, pid) for pid in job.helpmates(key[0])))
    return tuple(other for other in others if not _does_nothing_for_others(job, other))


def _does_nothing_for_others(job: JobState, key: ThreadKey) -> bool:
    """It sleeps in an endless loop that asks for nothing."""
    beats = key[0] != key[1] and job.tests(key) == () and job.motion(key) is Motion.POLLING
    return beats or job.keeps_books(key) or job.only_sleeps(key)


def _stands_beside(job: JobState, found: Node) -> bool:
    """A thread that only sleeps, and counts or logs, in an endless loop, or in one that it polls to leave, and is not the main
    thread; or one that accepts connections.
    """
    key = found.key
    if found.status is Status.LEAF:
        return job.only_polls(key) or _does_nothing_for_others(job, key)
    return found.edge is not None and (_listens(job, key) or job.only_polls(key) or _takes_jobs(job, key))


def _takes_jobs(job: JobState, key: ThreadKey) -> bool:
    """A thread beside the main one, of a program of the job's own, waits for an item of a queue between threads."""
    own = key[0] != key[1] and job.role(key[0]).kind not in HELPERS
    return own and has(job.stacks.get(key), "/queue.py", ("get",)) and context(job.stacks.get(key)) is None


def _listens(job: JobState, key: ThreadKey) -> bool:
    return any(item.listens for item in job.waits_on(key))


def _ended(job: JobState, key: ThreadKey) -> Answer:
    return None if job.is_alive(key[0]) else Status.LEAF


def _stopped(job: JobState, key: ThreadKey) -> Answer:
    """Stopped by a signal, or by the process that traces it."""
    if job.wait_state(key).kind is not Wait.STOPPED:
        return None
    return Status.LIVE if _continues_soon(job, key[0]) else _tracer(job, key) or Status.LEAF


def _continues_soon(job: JobState, pid: int) -> bool:
    """Something stops the process and lets it continue in turn, as a limiter of its share of a CPU does, and it has not been
    stopped for much longer than before.
    """
    life = job.history.life(job.processes[pid])
    if life is None or life.stopped_at is None or not life.longest_stop_s:
        return False
    return job.now - life.stopped_at < STOPS_AGAIN * life.longest_stop_s + PATIENCE_S


def _by_timer(job: JobState, key: ThreadKey) -> Answer:
    """It waits for its time to come, of threading's or of timerfd_create(2); whether the latter is armed is not read."""
    objects = job.waits_on(key)
    by_clock = bool(objects) and all(item.kind == "timerfd" for item in objects)
    blocked = job.blocked.get(key)
    # A thread whose function is the `wait` of an event looks like a timer without a limit.
    timer = job.wait_state(key).kind is Wait.TIMER and (blocked is None or blocked.has_limit)
    return Status.LIVE if by_clock or timer else None


def _asked_to_end(job: JobState, key: ThreadKey) -> Answer:
    return Status.LEAF if job.was_asked_to_end(key) else None


def _keeps_others_out(job: JobState, key: ThreadKey) -> Answer:
    """A server waits for the next request of one client, while another of the job waits to be accepted, and no thread accepts."""
    items = list(job.waits_on(key))
    if job.wait_state(key).kind is not Wait.SERVICE or not items or not all(item.peer for item in items):
        return None
    edge = message(job, key) if accepts_nobody(job, key[0]) else None
    return msgspec.structs.replace(edge, holder_known=True) if edge else None


def _idle(job: JobState, key: ThreadKey) -> Answer:
    return Status.IDLE if job.wait_state(key).idle else None


def _keeps_books(job: JobState, key: ThreadKey) -> Answer:
    """What others poll for may be in its books, see `answers`; else it helps nobody."""
    return Status.LEAF if job.keeps_books(key) else None


def _progresses(job: JobState, key: ThreadKey) -> Answer:
    moves = job.motion(key) is Motion.PROGRESSING and job.wait_state(key).kind not in _ALWAYS_WAITS
    return Status.LIVE if moves else None


def _in_silent_mount(job: JobState, key: ThreadKey) -> Answer:
    mount = job.silent_mount(key)
    return file_server(job, key, mount) if mount else None


def _on_gpu(job: JobState, key: ThreadKey) -> Answer:
    """A working GPU and a spinning one look alike for minutes: see `gpus.spins`."""
    return Status.LIVE if job.wait_state(key).kind is Wait.GPU else None


def _for_gil(job: JobState, key: ThreadKey) -> Answer:
    owner = gil_owner(job, key) or (starver(job, key) if _listens(job, key) else None)
    return gil_edge(job, owner) if owner else None


def _with_gil(job: JobState, key: ThreadKey) -> Answer:
    return kept_by_gil(job, key) if job.wait_state(key).kind is Wait.FILE_LOCK else None


def _leaves_unread(job: JobState, key: ThreadKey) -> Answer:
    return Status.LEAF if left_unread(job, key) else None


def _rests_in_loop(job: JobState, key: ThreadKey) -> Answer:
    """All that goes on in its event loop is that tasks report, or poll for what other threads, or other processes, may bring."""
    tasks = job.of(EventLoops).resting(key)
    if not tasks or job.motion(key) is not Motion.POLLING:
        return None
    if not any(map(polls, tasks)):
        return resting_loop(job, key)
    if _may_be_changed_soon(job, key):
        return None
    children = ((row.child, row.child) for row in tasks if row.child is not None)
    targets = tuple(dict.fromkeys((*_might_bring(job, key), *children)))
    return WaitEdge(targets, guessed=True, words="what its tasks poll for") if targets else Status.LEAF


def _in_block(job: JobState, key: ThreadKey) -> Answer:
    """It polls a lock of the program's own making, and no clock ends that."""
    edge = entered_block(job, key)
    return edge if edge and not may_act_by_clock(job, key) else None


def _tested(job: JobState, key: ThreadKey) -> PollRow | None:
    """What a polling loop of a library tests, if that is known."""
    return polled(job.stacks.get(key)) if job.wait_state(key).kind is not Wait.SIGNAL else None


def _polls(job: JobState, key: ThreadKey) -> Answer:
    tested = _tested(job, key)
    if job.tests(key) and job.motion(key) is Motion.POLLING and may_be_answered(job, key):
        return Status.LIVE
    edge = polled_work(job, key, tested) if tested else None
    return with_crashed(job, key, edge) if edge and tested and tested.kind is Wait.FILE_MARK else edge


def _acts_in_time(job: JobState, key: ThreadKey) -> Answer:
    acts = job.wait_state(key).kind not in _ALWAYS_WAITS and may_act_by_clock(job, key)
    return Status.LIVE if acts and job.motion(key) is Motion.POLLING else None


def _beats(job: JobState, key: ThreadKey) -> Answer:
    """It works once per pause until the event is set: `while not stop.wait(1)`; not a task that others wait for, or a loop that
    only polls.
    """
    stack = job.stacks.get(key)
    works = context(stack) is None and not (stack and stack.polls_for is not None)
    waits = works and job.wait_state(key).kind is Wait.PROCESS_EVENT and only_beats(job, key)
    return Status.LIVE if waits and not owes_messages(job, key) else None


def _left_by_fork(job: JobState, key: ThreadKey) -> Answer:
    return left_loop(job, key) if job.wait_state(key).kind is Wait.POLL else None


def _wakes_soon(job: JobState, key: ThreadKey) -> Answer:
    """A loop that watches only its own wake-up pipe wakes up for its timers, whatever these do."""
    kind = job.wait_state(key).kind
    if kind not in (Wait.POLL, Wait.EVENT_LOOP) or not ends_by_itself(job, key):
        return None
    if polls_for_the_dead(job, key):
        return Status.LEAF
    renews = kind is Wait.POLL and job.motion(key) is Motion.POLLING and asks_soon_again(job, key)
    edge = message(job, key) if renews else None
    others = [target for target in edge.targets if not _is_itself(target, key)] if edge else []
    # A server outside may be what the loop of a Python program polls beside its timers; of another program, the calls tell.
    outside = key[0] not in job.foreign and any(isinstance(target, External) for target in others)
    return edge if others and not outside else Status.LIVE


def _hidden(job: JobState, key: ThreadKey) -> Answer:
    return hidden_wait(job, key) if job.wait_state(key).kind is Wait.UNKNOWN else None


def _gives_up(job: JobState, key: ThreadKey) -> Answer:
    """Whether one that has just begun to wait anew at the same line polls, is not known yet."""
    stands = job.motion(key) in (Motion.NOT_SCHEDULED, Motion.UNKNOWN)
    return Status.LIVE if stands and gives_up_soon(job, key) else None


def _waits_for_nothing(job: JobState, key: ThreadKey) -> Answer:
    if _edge_of(job, key):
        return None
    status, motion = _leaf(job, key, job.motion(key)), job.motion(key)
    if status is not Status.LEAF:
        return status
    if opens_pipe(job.blocked.get(key)):
        return _other_opener(job, key) or status
    if motion is Motion.POLLING and (stopped := _stopped_beside(job, key[0])):
        return WaitEdge(stopped, polled=True, words="what a process that is stopped may have to bring")
    # A polling thread with a file open that is locked is trying to get the lock.
    tries = motion is Motion.POLLING and retried_locks(job, key[0])
    return (file_lock(job, key) if tries else None) or status


def _without_frames(job: JobState, key: ThreadKey) -> Answer:
    """A bare futex says nothing about who could release it."""
    if key in job.stacks or job.wait_state(key).kind not in _NEED_FRAMES or key[0] in job.foreign:
        return None
    return _native(job, key) if job.motion(key) is Motion.NOT_SCHEDULED else Status.LIVE


def _by_kind(job: JobState, key: ThreadKey) -> Answer:
    edge_of = _edge_of(job, key)
    edge = name_server(job, key) or (edge_of(job, key) if edge_of else None)
    if edge is None:
        return Status.LIVE
    return with_unread(job, key, with_crashed(job, key, edge))


def _edge_of(job: JobState, key: ThreadKey) -> Callable[[JobState, ThreadKey], WaitEdge | None] | None:
    """The function of the thread's kind of wait; `None` for a leaf, such as a loop that tests a condition no process of the job
    can change and so only sleeps.
    """
    found = None if _tested(job, key) else EDGES.get(job.wait_state(key).kind)
    if found is other_threads and job.role(key[0]).kind == "manager" and serves_one(job, key):
        # It waits in a user object of a manager, which only the manager's clients can reach.
        return clients
    return found


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
    words = f"{job.name(by)} to detach from it"
    return WaitEdge(((by, by),), every=True, basis=Basis.KERNEL, words=words, evidence=evidence)


def _native(job: JobState, key: ThreadKey) -> WaitEdge | Status:
    """A native thread in a futex, by its C frames if they were read."""
    fact = job.native_facts.get(key)
    if fact is None:
        return Status.HIDDEN
    if fact.is_at_rest:
        return Status.IDLE
    return native_thread(job, key) or (Status.LIVE if fact.certain else Status.HIDDEN)


def _leaf(job: JobState, key: ThreadKey, motion: Motion) -> Status:
    """The status of a thread that waits for nothing in the job: LIVE if its wait ends by itself, else LEAF."""
    if motion is Motion.UNKNOWN:
        return Status.LIVE
    if motion is Motion.NOT_SCHEDULED and job.wait_state(key).kind is Wait.RUNNING:
        # The thread is runnable, but the machine has no CPU for it.
        return Status.LIVE
    blocked = job.blocked.get(key)
    if blocked is not None and blocked.syscall in SIGNAL_CALLS and _takes_alarm(job, key[0], blocked):
        # When a timer of setitimer(2) is due cannot be read of another process.
        return Status.LIVE
    wakes = wakes_at(blocked) if job.wait_state(key).kind is Wait.SLEEP else blocked.wakes_at if blocked else None
    ends_soon = wakes is not None and wakes - job.now < SOON_S
    if ends_soon and (motion is Motion.NOT_SCHEDULED or (motion is Motion.POLLING and sleeps_long(blocked))):
        return Status.LIVE
    if motion is Motion.POLLING and polls_for_the_dead(job, key):
        return Status.LEAF
    if motion in (Motion.POLLING, Motion.BUSY_LOOP) and not job.only_polls(key) and signs_of_life(job, key):
        return Status.LIVE
    if motion is Motion.POLLING and computes_between(job, key):
        # The thread computes between short sleeps, which samples seldom show.
        return Status.LIVE
    acts = job.tests(key) == () and job.acts(key)
    if motion is Motion.POLLING and (manages(job, key) or acts):
        return Status.LIVE
    if motion is Motion.POLLING and _may_be_changed_soon(job, key):
        return Status.LIVE
    if motion is Motion.BUSY_LOOP and context(job.stacks.get(key)) is None and not starves_others(job, key):
        # Top-level code may compute as long as it likes, unless it loops without progress.
        endless = reads_for_ever(job, key[0]) or matches_short_text(job.stacks.get(key))
        endless = endless or (goes_round(job, key) and keeps_waiting(job, key))
        return Status.LEAF if endless else Status.LIVE
    return Status.LEAF


def _takes_alarm(job: JobState, pid: int, blocked: Blocked) -> bool:
    return job.processes[pid].catches_alarm or signal.SIGALRM in blocked.signals


def _may_be_changed_soon(job: JobState, key: ThreadKey) -> bool:
    """What the thread polls for may come from a child or another thread whose sleep ends soon, or from a child in a task; what
    it only looks for, from any program of the job that acts by itself.
    """
    stack = job.stacks.get(key)
    mains = [(pid, pid) for pid in job.programs_beside(key[0])] if stack and stack.only_looks else []
    if any(main[0] in job.at_work or pauses(job, main) for main in mains):
        return True
    children = [(pid, pid) for pid in job.helpmates(key[0])]
    beside = [other for other in job.threads(key[0]) if other != key and not job.only_sleeps(other)]
    if any(job.motion(other) is Motion.BUSY_LOOP and node(job, other).status is Status.LIVE for other in beside):
        return True
    if may_be_answered(job, key) or any(may_act_by_clock(job, child) for child in children):
        return True
    return any(pauses(job, other) for other in (*children, *beside)) or any(
        _works_on_a_task(job, child) or _waits_for_command(job, child, key[0]) for child in children
    )


def _stopped_beside(job: JobState, pid: int) -> tuple[ThreadKey, ...]:
    """The main threads of other Python processes of the job that are stopped, and not for a moment."""
    others = (other for other in job.stopped if other != pid and other not in job.foreign)
    return tuple(
        (other, other) for other in others if job.role(other).kind not in HELPERS and not _continues_soon(job, other)
    )


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


def _works_on_a_task(job: JobState, key: ThreadKey) -> bool:
    blocked = job.blocked.get(key)
    if opens_pipe(blocked) or not in_task(job.stacks.get(key)):
        return False
    return node(job, key).status is Status.LIVE or (turns(job, key) and (pause_s(blocked) or 0.0) > FROZEN_AFTER_S)


WAYS: tuple[Callable[[JobState, ThreadKey], Answer], ...] = (
    _ended, _stopped, _asked_to_end, _by_timer, _keeps_others_out, _idle, _keeps_books, asked_tasks, _progresses,
    _in_silent_mount, _on_gpu, _for_gil, _with_gil, _leaves_unread, stuck_loop, _rests_in_loop, _in_block, _polls,
    _acts_in_time, _beats, _left_by_fork, broker, _wakes_soon, _hidden, _gives_up, _waits_for_nothing, _without_frames,
    _by_kind,
)  # fmt: skip
"""The questions, in their order; the last one always has an answer."""
