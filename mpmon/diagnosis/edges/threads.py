"""Waits inside one process: locks, conditions, native mutexes, the GIL."""

from __future__ import annotations

from mpmon.diagnosis.edges.callbacks import Callbacks
from mpmon.diagnosis.edges.connections import askers, is_private
from mpmon.diagnosis.edges.imports import import_lock
from mpmon.diagnosis.edges.missing import is_deliverer, is_of_pool, why_no_thread
from mpmon.diagnosis.edges.natives import mutex_owner, native_threads, waits_for
from mpmon.diagnosis.edges.remote import Callers
from mpmon.diagnosis.graph import Absent, Basis, External, NoReleaser, Target, WaitEdge
from mpmon.diagnosis.graph.nodes import FEW
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.libraries import SERVES_ITSELF, TURNS
from mpmon.diagnosis.progress.activity import signs_of_life
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.progress.pauses import pause_s
from mpmon.diagnosis.progress.ticking import but_beating
from mpmon.diagnosis.roles import POOL_WORKERS
from mpmon.diagnosis.stacks.frames import in_call, is_machinery, is_user, own_frames
from mpmon.diagnosis.stacks.native_waits import Sort
from mpmon.diagnosis.stacks.shapes import shape
from mpmon.diagnosis.stacks.waits import ENDS_OF_PROCESSES, MAY_BE_ASKED, Context, Wait, context
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.thresholds import CLOCKS_S, PATIENCE_S, POLLS_IN_VAIN, RETRY_S, SAME_LIMIT_SHARE, SOON_S
from mpmon.model import Blocked, LockUse, Stack


def thread_lock(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """A `threading` lock by its holder: the thread inside its `with` block, or the owner of an RLock."""
    if edge := import_lock(job, key):
        return edge
    lock = job.wanted_lock(key)
    holders = job.lock_holders(lock)
    targets = tuple(dict.fromkeys((use.pid, use.tid) for use in holders))
    if not targets:
        return _taken_before_fork(job, key, lock) if lock else None
    names = several([f"{job.thread_words(target)}" for target in targets])
    # Of several holders only one can be real: the others released the lock inside their `with` blocks.
    exact = len(targets) == 1 and all(use.exact for use in (*holders, *job.lock_waiters(lock)))
    # After a fork, a new thread may get the ident of a parent thread that was not copied.
    exact = exact and not (job.is_forked(key[0]) and holders[0].function is None)
    movers = _may_release(job, key, holders[0])
    words, evidence = f"a lock held by {names}", _holding(job, holders[0])
    # Where the holder itself is only probable, one of those that move may have it.
    probable = not any(use.exact for use in holders)
    return WaitEdge(
        (*targets, *movers) if probable else targets,
        basis=Basis.MEMORY.when(exact and not movers), holder_known=True, words=words, evidence=evidence,
    )  # fmt: skip


def _may_release(job: JobState, key: ThreadKey, use: LockUse) -> tuple[ThreadKey, ...]:
    """The other threads that may yet release the lock: a `Lock` can be released by any thread, an `RLock` only by its owner. A
    thread that is at work or asleep may still do so.
    """
    others = (other for other in job.others_at_work(key) if other != (use.pid, use.tid) and use.kind != "RLock")
    return tuple(
        other
        for other in others
        if job.motion(other) in (Motion.PROGRESSING, Motion.BUSY_LOOP)
        or job.wait_state(other).kind in (Wait.SLEEP, Wait.RUNNING, Wait.GPU)
    )


def _holding(job: JobState, use: LockUse) -> str:
    """The source of the fact, in words a person can check."""
    name = job.thread_name((use.pid, use.tid))
    lock = f"{use.kind} {use.object.rpartition(':')[2]} of pid {use.pid}"
    if use.function and not use.exact:
        return f"{lock} is probably held by thread {name}, in {use.function}()"
    where = f", in a with block of {use.function}()" if use.function else ", its owner"
    return f"{lock} is held by thread {name}{where}"


def _taken_before_fork(job: JobState, key: ThreadKey, lock: str) -> WaitEdge | None:
    """A lock that was copied by a fork while locked: the thread that locked it does not exist in this process."""
    holders = job.holders_before_fork(key[0], lock)
    if not holders:
        return None
    missing = holders[0].owner_missing
    address = lock.rpartition(":")[2]
    why = (
        f"the {holders[0].kind} {address} names an owner that is not a thread of pid {key[0]}"
        if missing
        else f"{_holding(job, holders[0])}; pid {key[0]} has a copy of it that has been locked since the fork"
    )
    reason = Absent.LOCKED_AT_FORK if job.is_forked(key[0]) else Absent.HOLDER_ENDED
    exact = _held_at_fork(job, key[0], lock) and (missing or len(job.threads(key[0])) == 1)
    return WaitEdge(
        (NoReleaser(why, (key[0],), reason),),
        basis=Basis.MEMORY.when(exact),
        words="a lock taken before the fork",
        evidence=why,
    )


def _held_at_fork(job: JobState, pid: int, lock: str) -> bool:
    """The parent's thread that holds the parent's lock has not run since before the child was made.

    Otherwise the parent's thread may have taken the lock later, and a thread of the child may have taken the copy.
    """
    process = job.processes[pid]
    holders = job.lock_holders(lock.replace(f":{pid}:", f":{process.ppid}:"))
    pasts = [job.thread_history((use.pid, use.tid)) for use in holders if use.exact]
    return len(holders) == 1 and any(past and past.ran_at < process.start_time + CLOCKS_S for past in pasts)


def native_mutex(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """A pthread mutex by its owner word; any other private futex by the threads of the process."""
    if edge := import_lock(job, key):
        return edge
    if edge := native_threads(job, key):
        return edge
    if edge := mutex_owner(job, key):
        return edge
    edge = other_threads(job, key)
    if edge is None or not (job.is_native(key) or job.may_be_native(key)):
        return edge
    # A library's native threads may be working for the waiter, which no Python frame shows.
    if job.natives_at_work(key[0]):
        return None
    if loops := job.native_loops(key[0]):
        others = (target for target in edge.targets if not isinstance(target, NoReleaser))
        clients = (_CLIENT,) if job.serves_in_c(key) else ()
        return WaitEdge((*others, *loops, *clients), words=edge.words)
    return edge


_CLIENT = External("a client of the server that this process is", moves=True)


def other_threads(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """A lock, condition or queue between threads: any other Python thread of the process that is not itself idle."""
    if edge := _permit(job, key):
        return edge
    words = job.wait_state(key).words
    working = job.of(Callbacks).but_held_up(key, _but_heartbeats(job, key, job.working_threads(key[0])))
    # Among many targets, including the waiter itself makes no difference, and lets all waiters share one tuple.
    others = working if len(working) > FEW else tuple(other for other in working if other != key)
    may_be_asked = job.wait_state(key).kind in MAY_BE_ASKED
    if may_be_asked and (in_tasks := _in_tasks(job, key[0])):
        others = (*others, *in_tasks)
    asking = job.of(_Askers).of(key[0]) if may_be_asked else ()
    if may_be_asked and _is_beside_server_in_c(job, key):
        asking = (*asking, _CLIENT)
    if _CLIENT in asking:
        return WaitEdge((*others, *asking), words=words)
    if others and not (job.is_native(key) and all(waits_for(job, other, key) for other in others)):
        return WaitEdge(job.of(_Askers).beside(key[0], others) if asking else others, words=words)
    if _gives_up(job, key) and (children := job.helpmates(key[0])):
        # Between two short timed waits, the thread may check the processes it started.
        busy = tuple((pid, pid) for pid in children if not job.wait_state((pid, pid)).idle)
        return WaitEdge(busy, words=words) if busy else None
    if _limit_ends_it(job, key) or _is_looked_after(job, key):
        return None
    if asking:
        return WaitEdge((*asking, *job.of(_Askers).may_come(key[0])), words=words)
    why = "no other Python thread of this process is left that could end the wait"
    basis = Basis.KERNEL.when(_is_left_alone(job, key))
    return WaitEdge((NoReleaser(why, (key[0],), why_no_thread(job, key)),), basis=basis, words=words)


def _in_tasks(job: JobState, pid: int) -> tuple[ThreadKey, ...]:
    """Workers of pools of the process that are in a task: a callback of its result may end whatever a thread waits for."""
    workers = ((child, child) for child in job.clients.get(pid, ()) if job.role(child).kind in POOL_WORKERS)
    at_work = tuple(worker for worker in workers if job.is_alive(worker[0]) and not job.wait_state(worker).idle)
    return at_work if at_work and any(is_deliverer(job, key) for key in job.threads(pid)) else ()


def _permit(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """A permit of a semaphore whose users give theirs back themselves: those in a `with` block of it; nobody, if there are none
    and no other thread is at work; `None` if others may give one back.
    """
    wanted = job.permit_wanted(key)
    if wanted is None or not wanted.alone:
        return None
    holders = tuple(dict.fromkeys((use.pid, use.tid) for use in job.lock_holders(wanted.object)))
    words = "a permit of a threading semaphore"
    if holders:
        names = several([job.thread_words(holder) for holder in holders])
        evidence = f"pid {key[0]}: in a with block of the semaphore (read from their frames): {names}"
        return WaitEdge(holders, holder_known=True, words=f"{words} held by {names}", evidence=evidence)
    waiters = {(use.pid, use.tid) for use in job.lock_waiters(wanted.object)}
    others = [other for other in job.working_threads(key[0]) if other != key and other not in waiters]
    if others:
        return None
    why = "no thread of this process is in a call that took a permit and would give it back"
    return WaitEdge((NoReleaser(why, (key[0],), Absent.PERMIT_LOST),), words=words, evidence=why)


def _is_beside_server_in_c(job: JobState, key: ThreadKey) -> bool:
    """Whether the thread is one of an executor, another thread of which may take a request that a library's server in C accepts.
    If all of them are in tasks and more are queued, the request would wait in the queue.
    """
    found = context(job.stacks.get(key))
    if found is None or found[0] is not Context.EXECUTOR_THREAD or job.is_full(key):
        return False
    return any(job.shape(other).serves and job.accepts_in_c(other) for other in job.threads(key[0]))


def _limit_ends_it(job: JobState, key: ThreadKey) -> bool:
    """No thread has to end the wait: it has a time limit, after which the thread did something else before, or may do
    something as yet unknown, such as a library that waits until its next job is due; not so one that wants a connection of a
    pool, and fails then. A call in an event loop is not to hold it up for long, whatever its limit, unless it waits for an event,
    which a handler may set.
    """
    pause, stack = pause_s(job.blocked.get(key)), job.stacks.get(key)
    if pause is None or stack is None or job.wait_state(key).kind not in MAY_BE_ASKED:
        return False
    if pause > SOON_S and in_call(stack, TURNS) and not job.in_event(key):
        return False
    if pause > SOON_S and is_of_pool(job, key) and not job.processes[key[0]].catches_alarm:
        return False
    if pause > RETRY_S and _is_of_unknown_library(stack):
        return True
    return not takes_up_again(job, key) or signs_of_life(job, key) is not None


def _is_of_unknown_library(stack: Stack) -> bool:
    """A library that mpmon does not know made the wait, by way of those that it knows."""
    asks = next((frame for frame in own_frames(stack) if not is_machinery(frame.file)), None)
    return asks is not None and not is_user(asks.file)


def _is_looked_after(job: JobState, key: ThreadKey) -> bool:
    """Idle threads of a library wake up from time to time, and may then give each other work: of a library that the thread has
    called, or that was lately seen to run code of the job.
    """
    timed = [
        other for other in job.threads(key[0])
        if other != key and (row := job.blocked.get(other)) and (row.wakes_at or row.timeout_s)
    ]  # fmt: skip
    may_call = (other for other in timed if not in_call(job.stacks.get(other), SERVES_ITSELF))
    serving = {package for other in may_call for package in job.shape(other).serves}
    return bool(serving) and (
        not serving.isdisjoint(job.shape(key).asks) or not serving.isdisjoint(_ran_code(job, key[0]))
    )


def _ran_code(job: JobState, pid: int) -> set[str]:
    """The libraries whose threads in the process were seen to run code of the job, as far back as samples go."""
    pasts = (past for other in job.threads(pid) if (past := job.thread_history(other)))
    stacks = (sample.stack for past in pasts for sample in past.samples if sample.stack)
    return {package for stack in stacks for package in shape(stack).runs}


def takes_up_again(job: JobState, key: ThreadKey) -> bool:
    """The thread was found in the same wait before it last ran, so it renews that wait. One with another time limit is not the
    same: a scheduler waits until its next job is due.
    """
    past, blocked, wait_state = job.thread_history(key), job.blocked.get(key), job.wait_state(key)
    ran_at = blocked.ran_at if blocked else None
    before = [sample for sample in past.samples if ran_at is not None and sample.at < ran_at] if past else []
    same = [row for row in before if (row.wait_state.kind, row.wait_state.words) == (wait_state.kind, wait_state.words)]
    return any(_lasts_as_long(row.blocked, blocked) for row in same)


def _lasts_as_long(one: Blocked | None, other: Blocked | None) -> bool:
    """Two waits have the same time limit, as far as it is known, and are not for two files, as `process.join(15)` of two."""
    if one and other and one.waits_on != other.waits_on:
        return False
    first, second = pause_s(one), pause_s(other)
    return first is None or second is None or abs(first - second) <= max(first, second) * SAME_LIMIT_SHARE


def _gives_up(job: JobState, key: ThreadKey) -> bool:
    """The wait has a short time limit, so the thread's loop continues by itself."""
    seconds = pause_s(job.blocked.get(key))
    return seconds is not None and seconds <= RETRY_S


class _Askers:
    """Who may ask a process for something, found once for all its threads: `job.of(_Askers)`."""

    def __init__(self, job: JobState) -> None:
        self._job = job
        self._found: dict[int, tuple[Target, ...]] = {}
        self._newcomers: dict[int, tuple[ThreadKey, ...]] = {}
        self._beside: dict[int, tuple[tuple[ThreadKey, ...], tuple[ThreadKey, ...]]] = {}

    def of(self, pid: int) -> tuple[Target, ...]:
        """If a thread of the process is legitimately idle and accepts connections, on which it may call user code: of a server
        that only the job knows its clients, else somebody who is not of the job. Of a process in torch's RPC the others.
        """
        if pid not in self._found:
            self._found[pid] = self._search(pid)
        return self._found[pid]

    def _search(self, pid: int) -> tuple[Target, ...]:
        job = self._job
        accepting = [key for key in job.accepting.get(pid, ()) if not in_call(job.stacks.get(key), SERVES_ITSELF)]
        idle = (key for key in accepting if job.wait_state(key).idle)
        listeners = [item for key in idle for item in job.waits_on(key) if item.listens]
        if not all(is_private(job, item) for item in listeners):
            return (_CLIENT,)
        calls = job.of(Callers).threads if pid in job.in_rpc else ()
        others = calls if len(calls) > FEW else tuple(key for key in calls if key[0] != pid)
        return (*(key for item in listeners for key in askers(job, item) if key[0] != pid), *others)

    def may_come(self, pid: int) -> tuple[ThreadKey, ...]:
        """The main threads of programs of the job that have not asked the process for anything now, and may do so next: they do
        more than sleep or look again for what does not come, and wait for no process to end.
        """
        if pid not in self._newcomers:
            asking = {target[0] for target in self.of(pid) if isinstance(target, tuple)}
            mains = ((other, other) for other in self._job.processes if other != pid and other not in asking)
            self._newcomers[pid] = tuple(key for key in mains if self._acts(key))
        return self._newcomers[pid]

    def beside(self, pid: int, threads: tuple[ThreadKey, ...]) -> tuple[ThreadKey, ...]:
        """Threads of the process and these; many waiters share one tuple."""
        newcomers = self.may_come(pid)
        if not newcomers:
            return threads
        if len(threads) <= FEW:
            return (*threads, *newcomers)
        # With the tuple kept beside it, no other one can get its id.
        if id(threads) not in self._beside:
            self._beside[id(threads)] = threads, (*threads, *newcomers)
        return self._beside[id(threads)][1]

    def _acts(self, key: ThreadKey) -> bool:
        job, stack = self._job, self._job.stacks.get(key)
        own = stack is not None and any(is_user(frame.file) for frame in stack.frames)
        rests = job.wait_state(key).idle or job.wait_state(key).kind in ENDS_OF_PROCESSES or job.only_sleeps(key)
        return own and job.may_act(key[0]) and not (rests or self._asks_in_vain(key))

    def _asks_in_vain(self, key: ThreadKey) -> bool:
        """It has come back often enough, and whatever it did has changed nothing, for itself or for anybody."""
        stood_s = self._job.now - self._job.stands_since(key)
        in_vain_s = max(PATIENCE_S, POLLS_IN_VAIN * (pause_s(self._job.blocked.get(key)) or 0.0))
        return self._job.motion(key) is Motion.POLLING and stood_s >= in_vain_s


def _but_heartbeats(job: JobState, key: ThreadKey, threads: tuple[ThreadKey, ...]) -> tuple[ThreadKey, ...]:
    """Drops threads that only report from time to time that they are alive; many waiters share one tuple. Not for an event
    wait: an event that is never set may merely keep the main thread waiting while such threads do all the work.
    """
    return threads if job.in_event(key) else but_beating(job, threads)


_PRIVATE = 0x80
"""FUTEX_PRIVATE_FLAG, linux/futex.h: only threads of the process can wake it."""


def _is_left_alone(job: JobState, key: ThreadKey) -> bool:
    """The only thread of the process waits, without a time limit, in a lock or a native barrier."""
    fact, blocked = job.native_facts.get(key), job.blocked.get(key)
    if fact is None or blocked is None or blocked.syscall != "futex" or len(blocked.args) < 2:
        return False
    alone = job.processes[key[0]].threads == 1 and bool(blocked.args[1] & _PRIVATE)
    return alone and not blocked.has_limit and fact.is_surely(Sort.LOCK, Sort.TEAM)
