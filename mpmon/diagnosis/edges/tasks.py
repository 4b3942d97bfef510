"""Waits inside a library about which nothing is known except that it runs user code, see `shapes`."""

from __future__ import annotations

from mpmon.diagnosis.edges.messages import leads_out
from mpmon.diagnosis.edges.other_ends import reads_from_command
from mpmon.diagnosis.graph import Absent, External, NoReleaser, WaitEdge
from mpmon.diagnosis.libraries import SHARES
from mpmon.diagnosis.progress.motion import Motion, share
from mpmon.diagnosis.roles import HELPERS
from mpmon.diagnosis.stacks.frames import in_call, is_user
from mpmon.diagnosis.stacks.waits import EPOLL_CALLS, Wait, context
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.suspects import stands_at
from mpmon.diagnosis.thresholds import IDLE_S, LEAST_SIGNS, POLLS_SHARE
from mpmon.model import Stack

_ASKS = frozenset({
    Wait.CONDITION, Wait.FUTEX, Wait.FUTURE_RESULT, Wait.PIPE_READ, Wait.POLL, Wait.QUEUE_GET, Wait.SLEEP, Wait.THREAD_QUEUE,
})  # fmt: skip
"""Kinds of wait that a client may be in. An event loop serves rather than asks; a socket may lead anywhere."""


def asked_tasks(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """The tasks run by the library that a thread waits in, if all of them stand still; `None` if one may make progress."""
    packages = job.shape(key).asks
    past = job.thread_history(key)
    if not packages or past is None or not _asks(job, key) or share(past.samples) > POLLS_SHARE:
        return None
    shares = in_call(job.stacks.get(key), SHARES) and not packages & job.shape(key).runs
    if shares or reads_from_command(job, key):
        return None
    tasks = [other for other in job.tasks if packages & job.shape(other).runs]
    others = [other for other in tasks if other != key]
    if key in tasks and not others and job.motion(key) is not Motion.PROGRESSING and job.is_on_one_machine:
        if job.shape(key).reads:
            return _by_its_client(job, key) if job.listens_in_c(key[0]) else None
        if servers := _servers_outside(job, key[0]):
            return WaitEdge(servers, words="an answer from outside of the job")
        (name, *_) = sorted(packages & job.shape(key).runs)
        evidence = f"{name} has called no code of the job but {stands_at(job, key)} of pid {key[0]}, which itself waits in {name}"
        words = f"a task of {name} from inside a task, and no other task runs"
        return WaitEdge((key,), every=True, polled=True, words=words, evidence=evidence)
    if not others:
        return _never_begun(job, key, packages)
    if any(_moves(job, other) for other in others):
        return None
    (name, *_) = sorted(packages & job.shape(others[0]).runs)
    asking = (other for other in job.stacks if other != key and packages & job.shape(other).asks)
    if edge := _kept_out(job, key, [*tasks, *(other for other in asking if not _moves(job, other))]):
        return edge
    names = job.names(dict.fromkeys(pid for pid, _ in others))
    evidence = _evidence(job, others, name)
    return WaitEdge(tuple(others), polled=True, words=f"a task of {name} in {names}", evidence=evidence)


def _servers_outside(job: JobState, pid: int) -> tuple[External, ...]:
    """What lies at the other ends of a process's connections over the network that lead out of the job: a service that answers a
    request by way of another service waits for that one.
    """
    objects = (job.objects[name] for name in sorted(job.held_by.get(pid, ())) if name in job.objects)
    return tuple(External(item.path or "") for item in objects if leads_out(item) and item.peer not in job.holders)


def _by_its_client(job: JobState, key: ThreadKey) -> WaitEdge:
    """A task that a server runs for a request, and that reads a stream of the server's library: for what its client sends, any
    working thread of the processes at the other ends of the server's connections; else one that is not of the job.
    """
    held = job.held_by.get(key[0], frozenset())
    rows = (row for row in job.snapshot.blocked if row.pid != key[0])
    pids = dict.fromkeys(
        row.pid
        for row in rows
        if any(item.kind == "socket" and item.peer in held for item in job.waits_on((row.pid, row.tid)))
    )
    threads = (other for pid in pids for other in job.threads(pid) if not job.wait_state(other).idle)
    clients = tuple(other for other in threads if not job.serves_library(other))
    return WaitEdge(clients or (External("its client", moves=True),), words="its client")


def _kept_out(job: JobState, key: ThreadKey, users: list[ThreadKey]) -> WaitEdge | None:
    """Of the tasks of a library and of those that wait for them, which all stand still: the one that is in a `with` block of the
    name of the one that this thread is about to enter; which may be its own, if it is a task.
    """
    inside = [other for other in job.seen_inside(key) if other in users]
    if len(inside) != 1:
        return None
    (holder,) = inside
    whose = "its own" if holder == key else job.name(holder[0])
    evidence = (
        f"pid {key[0]} sleeps on its way into a with block, and pid {holder[0]} is in one of the same class and name"
    )
    return WaitEdge(
        (holder,),
        every=True,
        holder_known=True,
        polled=True,
        words=f"the end of a with block of {whose}",
        evidence=evidence,
    )


def _never_begun(job: JobState, key: ThreadKey, packages: frozenset[str]) -> WaitEdge | None:
    """The task that the thread waits for has not been begun by any worker: it lacks a resource that is never released, or its
    result was lost.
    """
    known = (other for other in job.stacks if other[0] in job.processes)
    others = (other for other in known if other != key and job.role(other[0]).kind not in HELPERS)
    workers = {other: found for other in others if (found := packages & _served(job, other))}
    idle = [other for other in workers if job.wait_state(other).idle and job.is_alive(other[0])]
    asks = any(is_user(frame.file) for frame in job.stacks[key].frames)
    if any(_is_beside(job, other, idle) and not job.wait_state(other).idle for other in workers):
        # A worker is busy: a task that is a C function or a library function has no user frame.
        return None
    if not asks or not idle or job.tasks or not job.is_on_one_machine:
        # The main thread of a library's own program waits for requests like its workers.
        return None
    if any(_may_run_it(job, pid, key) for pid in job.processes) or not all(_was_idle(job, other) for other in idle):
        return None
    (name, *_) = sorted(workers[idle[0]])
    names = job.names(dict.fromkeys(pid for pid, _ in idle))
    why = f"none of the workers of {name} has a task: {names}"
    nobody = NoReleaser(why, (key[0],), Absent.NOT_BEGUN)
    return WaitEdge((nobody,), polled=True, idle_s=IDLE_S, words=f"a task of {name}")


def _is_beside(job: JobState, key: ThreadKey, idle: list[ThreadKey]) -> bool:
    """The thread is a worker like the idle ones, since it shares their outermost calls."""
    return any(_begin_alike(job.stacks[key], job.stacks[other]) for other in idle)


def _begin_alike(one: Stack, other: Stack) -> bool:
    count = min(_OUTERMOST, len(one.frames), len(other.frames))
    outermost = ([(row.function, row.file) for row in stack.frames[-count:]] for stack in (one, other))
    return count > 0 and next(outermost) == next(outermost)


_OUTERMOST = 4
"""Number of calls that identify a thread's purpose: two of `threading`, and two of the library."""


def _served(job: JobState, key: ThreadKey) -> frozenset[str]:
    """The packages that a thread serves; for a main thread also those of its parent process's main thread, whose worker it
    may be.
    """
    pid, tid = key
    parent = job.starter(pid)
    above = (parent, parent) if pid == tid and not job.shape(key).asks else key
    return job.shape(key).serves | job.shape(above).serves


def _may_run_it(job: JobState, pid: int, key: ThreadKey) -> bool:
    """The process used a CPU lately, in more rounds than a garbage collection takes; or it is another one of Python, and its
    main thread's stack could not be read, as happens while a thread runs, or is older than its last run.
    """
    life = job.history.life(job.processes[pid])
    busy = life is not None and len(life.busy_at) == LEAST_SIGNS and life.busy_at[0] > job.now - IDLE_S
    unread = (pid, pid) not in job.stacks or job.motion((pid, pid)) is Motion.UNKNOWN
    other = pid != key[0] and job.may_act(pid) and pid not in job.foreign
    return busy or (other and unread)


def _was_idle(job: JobState, key: ThreadKey) -> bool:
    """The thread, which now waits for work, has been watched for long enough, and every recent sample found it waiting for work;
    or it has not run since: what a library's thread does by its timers is not known.
    """
    past = job.thread_history(key)
    if past is None or past.first_at > job.now - IDLE_S:
        return False
    lately = [sample for sample in past.samples if sample.at > job.now - IDLE_S]
    return past.ran_at <= job.now - IDLE_S or all(sample.wait_state.idle for sample in lately)


def _asks(job: JobState, key: ThreadKey) -> bool:
    """The thread waits like a client; or it is the main thread of a library's own program, which gets its requests from
    such clients.
    """
    kind, blocked = job.wait_state(key).kind, job.blocked.get(key)
    by_user = any(is_user(frame.file) for frame in job.stacks[key].frames)
    if blocked is not None and blocked.syscall in EPOLL_CALLS and by_user:
        # An event loop, even if it watches but one pipe just now.
        return False
    if kind is Wait.POLL and by_user:
        return _polls_us(job, key)
    return kind in _ASKS and (kind is not Wait.POLL or key[0] == key[1])


def _polls_us(job: JobState, key: ThreadKey) -> bool:
    """All that it polls are connections to processes of the job, such as one that passes on tasks and results, and that have no
    other clients.
    """
    items = list(job.waits_on(key))
    if not items or not all(item.kind == "socket" and item.peer in job.holders for item in items):
        return False
    servers = {row.pid for item in items for row in job.holders[item.peer or ""]}
    served = (
        item for pid in servers for item in job.waits_on((pid, pid)) if item.kind == "socket" and not item.listens
    )
    return all(item.peer in job.holders and item.peer not in job.outsiders for item in served)


def _moves(job: JobState, key: ThreadKey) -> bool:
    """The task may still make progress; not so one that computes in a loop which brings nothing new."""
    motion = job.motion(key)
    in_vain = motion is Motion.BUSY_LOOP and context(job.stacks.get(key)) is not None
    return motion in (Motion.PROGRESSING, Motion.BUSY_LOOP, Motion.UNKNOWN) and not in_vain


def _evidence(job: JobState, tasks: list[ThreadKey], name: str) -> str:
    places = (f"{stands_at(job, task)} of pid {task[0]}" for task in tasks[:4])
    return f"{name} runs code of the job at {', '.join(places)}, and none of it makes progress"
