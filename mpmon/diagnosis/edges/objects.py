"""Waits for data or for a held lock: pipes, queues, locks between processes, file locks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from mpmon.diagnosis.edges.connections import askers, awaited, connection_words, is_private, servers, waits_inside
from mpmon.diagnosis.edges.dead import lost_relatives
from mpmon.diagnosis.edges.ends import exits
from mpmon.diagnosis.edges.taken import taken_by_ended
from mpmon.diagnosis.edges.threads import other_threads
from mpmon.diagnosis.frames import has
from mpmon.diagnosis.graph import Absent, Basis, External, NoReleaser, Target, WaitEdge
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.job_state import JobState
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.progress.pauses import pause_s
from mpmon.diagnosis.progress.ticking import only_ticks
from mpmon.diagnosis.retried_locks import SHARED_MEMORY, locks_of_others, polled_locks
from mpmon.diagnosis.roles import HELPERS
from mpmon.diagnosis.thresholds import IN_VAIN_S, RETRY_S
from mpmon.diagnosis.waits import Wait, in_barrier
from mpmon.model import KernelObject, QueueState, SemaphoreUse
from mpmon.numerals import numeral

QUEUES_FILE = "multiprocessing/queues.py"


def message(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """The processes that have the other end of the pipe or socket, or of each object in a poll."""
    if has_mail(job, key):
        return None
    objects = awaited(job, key)
    if any(item.kind == "inotify" for item in objects):
        return WaitEdge((External("a change to a watched file", moves=True),), words="file changes")
    writes = bool((row := job.blocked.get(key)) and row.writes)
    ends = dict.fromkeys(target for item in objects for target in other_ends(job, key, item, writes=writes))
    ends = {end: None for end in ends if not (isinstance(end, tuple) and _never_acts(job, end))} or ends
    words, evidence = job.wait_state(key).words, _object_words(job, objects, writes=writes)
    pipe = next((item for item in objects if item.kind == "pipe"), None)
    mute = pipe or (objects and all(_is_left_alone(job, key, item) for item in objects))
    strangers = _strangers(job, objects, writes=writes)
    # If only external processes have the other end, exited relatives had no part in it.
    dead = lost_relatives(job, key[0], certain=not ends) if mute and (ends or not strangers) else []
    if not writes and (keeper := _keeps_items(job, key, objects)):
        return WaitEdge((keeper,), basis=Basis.FRAMES, words=words, evidence=evidence)
    if not writes and (nobody := taken_by_ended(job, key, objects)):
        return WaitEdge((nobody,), words=words, evidence=nobody.why)
    # Beside a living producer, or one who was asked, those that ended without an error owe nothing.
    if dead and not writes and (asked(job, key, _threads(ends)) or _was_read_by_ended(job, objects)):
        dead = [gone for gone in dead if gone.status]
    if pipe and not (ends or strangers or any(gone.status for gone in dead)) and _keeps_other_end(job, key, pipe):
        why = f"it holds the only other end of {pipe.id} itself, so neither data nor end of file can arrive"
        edge = NoReleaser(why, (key[0],), Absent.OWN_END)
        return WaitEdge((edge,), basis=Basis.KERNEL.when(not dead), words=words, evidence=evidence)
    if edge := _kept_input(job, key, [target for target in ends if isinstance(target, tuple)], strangers):
        return edge
    if not (dead or strangers) and (edge := _nobody_serves(job, _threads(ends), words, evidence)):
        return edge
    if job.wait_state(key).kind is Wait.SOCKET and ends and not writes:
        words = f"an answer from {several(list(dict.fromkeys(job.role(pid).name for pid, _ in _threads(ends))))}"
    if ends or dead or strangers:
        basis = Basis.KERNEL.when(not strangers and _is_named(job, key, objects, list(ends)))
        return WaitEdge((*ends, *dead, *strangers), basis=basis, of_data=not writes, words=words, evidence=evidence)
    if pipe and (own := _own_threads(job, key, pipe, writes=writes)):
        only = f"only pid {key[0]} itself {'reads' if writes else 'writes'} {pipe.id}"
        return WaitEdge(own, of_data=not writes, words=words, evidence=only)
    if pipe:
        why = f"no other process {'reads' if writes else 'writes'} {pipe.id}"
        return WaitEdge((NoReleaser(why, (key[0],)),), basis=Basis.KERNEL, words=words, evidence=evidence)
    pause = pause_s(job.blocked.get(key))
    if pause is not None and pause > RETRY_S:
        # A timed wait for an external process may legitimately last for as long as its limit.
        return None
    if edge := _private_accept(job, key, objects, evidence):
        return edge
    return WaitEdge((External(_outside_words(objects)),), words=words, evidence=evidence)


def _private_accept(job: JobState, key: ThreadKey, objects: list[KernelObject], evidence: str) -> WaitEdge | None:
    """For a server that only the job knows: its clients, which may ask once more, those that may yet connect or start another
    client, and those that crashed.
    """
    if not objects or not all(item.listens and is_private(job, item) for item in objects):
        return None
    gone = [row for row in lost_relatives(job, key[0], certain=False) if row.status]
    asking = [other for item in objects for other in askers(job, item) if other[0] != key[0]]
    connected = {pid for pid, _ in asking}
    may_connect = [(pid, pid) for pid in job.children.get(key[0], ()) if job.is_alive(pid) and pid not in connected]
    # Without its own threads at work nobody would start the one that crashed again.
    targets = (*gone, *([] if gone else asking), *may_connect, *job.others_at_work(key))
    return WaitEdge(targets, words="a connection", evidence=evidence) if targets else None


def _nobody_serves(job: JobState, ends: list[ThreadKey], words: str, evidence: str) -> WaitEdge | None:
    """For ends of which none ever acts."""
    if not ends or not all(_never_acts(job, end) for end in ends):
        return None
    pids = tuple(dict.fromkeys(pid for pid, _ in ends))
    names = several([f"{job.role(pid).name} (pid {pid})" for pid in pids])
    why = f"no thread of {names} is left that could: the main thread stays for ever in a loop that only sleeps and reports"
    return WaitEdge((NoReleaser(why, pids, Absent.THREAD_ENDED),), words=words, evidence=evidence or why)


def _never_acts(job: JobState, key: ThreadKey) -> bool:
    """The thread sleeps for ever, and so do all others of its process that do anything."""
    if not job.only_sleeps(key):
        return False
    return all(job.only_sleeps(other) for other in (*job.others_at_work(key), *job.natives_at_work(key[0])))


def _kept_input(job: JobState, key: ThreadKey, ends: list[ThreadKey], strangers: Sequence[External]) -> WaitEdge | None:
    """For a non-Python program that reads its standard input until end of file: its parent has closed the writing end, but
    siblings inherited it at their fork, keep it open, and only wake from time to time.
    """
    row, parent = job.blocked.get(key), job.processes[key[0]].ppid
    if row is None or row.args[:1] != (0,) or row.writes or not job.is_foreign(key[0]) or strangers or not ends:
        return None
    if any(job.processes[pid].ppid != parent or not job.processes[pid].forked for pid, _ in ends):
        return None
    if not all(job.motion(end) is Motion.POLLING and pause_s(job.blocked.get(end)) is not None for end in ends):
        return None
    heirs = tuple(pid for pid, _ in ends)
    names = several([f"{job.role(pid).name} (pid {pid})" for pid in heirs])
    why = f"only {names} {'has' if len(heirs) == 1 else 'have'} the other end of its standard input, since the fork"
    words = job.wait_state(key).words
    return WaitEdge((NoReleaser(why, heirs, Absent.INHERITED),), words=words, evidence=why)


def _was_read_by_ended(job: JobState, objects: list[KernelObject]) -> bool:
    """The object is the pipe of a queue whose ended processes, by the ledgers of the living, took more items than they put:
    they were its readers, so the missing items were not theirs to put.
    """
    return any(queue.by_ended is not None and queue.by_ended < 0 for queue in _queues(job, objects))


def _keeps_items(job: JobState, key: ThreadKey, objects: Iterable[KernelObject]) -> NoReleaser | None:
    """Items of the queue are still in the memory of the process that put them, which has no feeder thread to send them: a
    library such as gevent has replaced threads by something that runs only while the program waits in the library.
    """
    for queue in _queues(job, objects):
        alive = [pid for pid in queue.putters if pid != key[0] and job.is_alive(pid)]
        if not queue.items or queue.unread_bytes != 0 or len(alive) != 1:
            continue
        readers = {pid for (pid, _), row in job.blocked.items() if queue.object in row.waits_on and not row.writes}
        others = {row.pid for row in job.holders.get(queue.object, ()) if row.writes} - {
            alive[0],
            *readers,
            *queue.getters,
        }
        if others:
            # One that has put nothing so far may yet do so.
            continue
        stacks = [job.stacks.get(other) for other in job.threads(alive[0])]
        if job.has_frames(alive[0]) and not any(stack and has(stack, QUEUES_FILE, ("_feed",)) for stack in stacks):
            count = f"{queue.items} item{'s' * (queue.items > 1)}"
            why = f"{count} that {job.role(alive[0]).name} put are still in its memory, and it has no thread that would send them"
            return NoReleaser(why, (alive[0],), Absent.NOT_SENT)
    return None


def asked(job: JobState, key: ThreadKey, ends: Iterable[ThreadKey]) -> list[ThreadKey]:
    """Of those who may send what a thread waits for, the ones that are seen to be meant to: for a queue, those that have put
    into it; for a connection, those that wait for items of a queue into which the thread's process puts, or whose
    process reads a pipe that only the thread's process writes. The others have merely inherited it, or may act for these.
    """
    others = [end for end in ends if end[0] != key[0]]
    if not others:
        return []
    put = _putters(job, job.waits_on(key))
    if put is not None:
        return [end for end in others if end[0] in put]
    return [
        end for end in others if key[0] in (_putters(job, job.waits_on(end)) or ()) or _serves_only(job, end[0], key[0])
    ]


def _serves_only(job: JobState, pid: int, client: int) -> bool:
    """A thread of the process reads a pipe whose writing end only the client has, such as the standard input of a subprocess."""
    for key in job.threads(pid):
        row, pipes = job.blocked.get(key), [item for item in job.waits_on(key) if item.kind == "pipe"]
        writers = {handle.pid for item in pipes for handle in job.holders.get(item.id, ()) if handle.writes}
        if row is not None and not row.writes and writers == {client}:
            return True
    return False


def _putters(job: JobState, objects: Iterable[KernelObject]) -> frozenset[int] | None:
    """Who was seen to put into the queue that one of these is the pipe of; `None` if none is that of a queue."""
    rows = _queues(job, objects)
    return frozenset(pid for queue in rows for pid in queue.putters) if rows else None


def _queues(job: JobState, objects: Iterable[KernelObject]) -> list[QueueState]:
    """The queues that some of these are the pipes of."""
    return [queue for item in objects if (queue := job.queues.get(item.id))]


def _keeps_other_end(job: JobState, key: ThreadKey, pipe: KernelObject) -> bool:
    """The thread reads a pipe whose writing end its own process has, and no other thread of it could write. Queues are
    excluded: their users all have both ends.
    """
    row, stack = job.blocked.get(key), job.stacks.get(key)
    of_queue = stack is None or has(stack, QUEUES_FILE, ("get", "_recv_bytes"))
    own = any(handle.pid == key[0] and handle.writes for handle in job.holders.get(pipe.id, ()))
    return own and not of_queue and not job.others_at_work(key) and not (row and row.writes)


def _own_threads(job: JobState, key: ThreadKey, pipe: KernelObject, *, writes: bool) -> tuple[ThreadKey, ...]:
    """The other threads of a process that itself has the other end of the pipe: any that does more than tick may use or close
    it.
    """
    rows = (row for row in job.holders.get(pipe.id, ()) if row.pid == key[0] and (row.reads if writes else row.writes))
    return tuple(other for other in job.others_at_work(key) if not only_ticks(job, other)) if any(rows) else ()


def _strangers(job: JobState, objects: Iterable[KernelObject], *, writes: bool) -> list[External]:
    """The processes outside the job that have the other end."""
    rows = [row for item in objects for row in job.outsiders.get(item.id, ()) if (row.reads if writes else row.writes)]
    return [External(f"pid {pid}, which is not part of this job") for pid in dict.fromkeys(row.pid for row in rows)]


def _is_named(job: JobState, key: ThreadKey, objects: list[KernelObject], ends: list[Target]) -> bool:
    """The kernel names the processes at the other end, and each has only one thread that could act."""
    named = _threads(ends)
    alone = all(_acts_alone(job, key, end) for end in named) and not _others_have(job, key, objects, named)
    known = all(item.kind == "pipe" or (item.kind == "socket" and (item.peer or item.listener)) for item in objects)
    return bool(ends) and alone and known


def _others_have(job: JobState, key: ThreadKey, objects: list[KernelObject], ends: list[ThreadKey]) -> bool:
    """Further living processes have the socket's other end, by a fork for instance, and might use it."""
    pids = {handle.pid for item in objects for handle in job.holders.get(item.peer or "", ())}
    return any(job.is_alive(pid) for pid in pids - {key[0]} - {pid for pid, _ in ends})


def _acts_alone(job: JobState, key: ThreadKey, end: ThreadKey) -> bool:
    """No other thread of the target's process could act instead; a non-Python process must be single-threaded."""
    if end[0] == key[0]:
        return not [other for other in job.others_at_work(end) if other != key]
    if job.is_foreign(end[0]):
        return job.processes[end[0]].threads == 1
    return not job.others_at_work(end)


def _threads(ends: Iterable[Target]) -> list[ThreadKey]:
    return [target for target in ends if isinstance(target, tuple)]


def _is_left_alone(job: JobState, key: ThreadKey, item: KernelObject) -> bool:
    """The socket's other end is open only in the waiter's own process: the process it was meant for is gone."""
    pids = {handle.pid for handle in job.holders.get(item.peer or "", ())}
    return item.kind == "socket" and pids == {key[0]}


def other_ends(job: JobState, key: ThreadKey, item: KernelObject, *, writes: bool) -> Iterator[Target]:
    """The targets that could end a wait for one object."""
    if item.kind == "process":
        number = numeral(item.id.partition(":")[2])
        yield from exits(job, [] if number is None else [number])
        return
    if item.kind == "socket":
        yield from servers(job, item, key)
        return
    if item.kind == "terminal" and not writes and (typists := job.typists.get(item.id)):
        yield from typists
        return
    far = item.peer if item.kind == "pty" and item.peer else item.id
    if item.kind == "terminal" and writes:
        far = f"pty:{item.id.rpartition('/')[2]}"
    for handle in job.holders.get(far, ()):
        helps = handle.reads if writes else handle.writes and not _never_puts(job, handle.pid, item)
        if handle.pid != key[0] and helps and job.is_alive(handle.pid) and job.role(handle.pid).kind not in HELPERS:
            yield from _hands(job, key, handle.pid)
        elif helps and job.role(handle.pid).kind == "forkserver":
            # A fork server has that pipe only to report the exit status of its children (forkserver.py).
            yield from exits(job, job.children.get(handle.pid, ()))


def _never_puts(job: JobState, pid: int, item: KernelObject) -> bool:
    """The process has inherited a queue into which others put, has never put anything, and only sleeps in a loop without an
    exit, such as one that reports or looks after something.
    """
    # Hardly any process is in such a loop, while a queue may have a thousand heirs.
    if job.tests((pid, pid)) != () or job.wait_state((pid, pid)).kind is not Wait.SLEEP:
        return False
    queue = job.queues.get(item.id)
    return queue is not None and bool(queue.putters) and pid not in {*queue.putters, *queue.getters}


def _hands(job: JobState, key: ThreadKey, pid: int) -> Iterator[ThreadKey]:
    """The threads of a process that may act on a pipe: its working threads, except those that have run since the wait began and
    now wait for another process again.
    """
    first = _hand(job, pid)
    yield first
    waiter = job.thread_history(key)
    for other in job.others_at_work(first) if first[1] == pid else ():
        past = job.thread_history(other)
        in_vain = past and waiter and past.ran_at > waiter.ran_at + IN_VAIN_S and not waits_inside(job, other)
        if not in_vain and job.motion(other) is not Motion.POLLING and not _serves_library(job, other, key):
            yield other


def _serves_library(job: JobState, key: ThreadKey, waiter: ThreadKey) -> bool:
    """The thread is a library's own, which transfers only the library's data, and the waiter does not use that library."""
    packages = job.shape(key).serves
    of_waiter = job.shape(waiter)
    return bool(packages) and not packages & (of_waiter.asks | of_waiter.runs | of_waiter.serves)


def _hand(job: JobState, pid: int) -> ThreadKey:
    """The thread of a process that would act on the pipe: a feeder thread blocked while sending, else the main thread."""
    for other in job.threads(pid):
        stack = job.stacks.get(other)
        if stack and job.wait_state(other).kind in (Wait.LOCK, Wait.PIPE_WRITE) and has(stack, QUEUES_FILE, ("_feed",)):
            return other
    return pid, pid


def has_mail(job: JobState, key: ThreadKey) -> bool:
    """Bytes to read, or a connection to accept, are already pending, so the thread is about to continue."""
    row = job.blocked.get(key)
    if row is None or row.writes:
        return False
    return any(item.fill and item.id not in row.once for item in job.waits_on(key) if item.kind in _WITH_MAIL)


def left_unread(job: JobState, key: ThreadKey) -> KernelObject | None:
    """Data of another process that a poll was woken for once, and that was not read to its end: nothing wakes it for the rest."""
    row = job.blocked.get(key)
    if row is None or not row.once or key not in job.stacks or job.motion(key) is not Motion.NOT_SCHEDULED:
        return None
    left = (item for item in job.waits_on(key) if item.id in row.once and item.fill and not item.listens)
    return next((item for item in left if _is_asked_for(job, item.peer)), None)


def _is_asked_for(job: JobState, peer: str | None) -> bool:
    """A thread waits at the other end of a connection."""
    return peer is not None and any(peer in row.waits_on for row in job.blocked.values())


_WITH_MAIL = frozenset({"pipe", "socket", "eventfd"})


def semaphore(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """A lock or semaphore between processes: its holder by the ledger, else every process that maps it."""
    items = [item for item in job.waits_on(key) if item.kind == "semaphore"]
    if not items:
        return other_threads(job, key)
    if owner := _robust_owner(job, items) or _mutex_owner(job, items):
        return owner
    if any(item.value for item in items):
        return None
    item = items[0]
    if not any(handle.pid == key[0] for handle in job.holders.get(item.id, ())):
        # Not even the waiter is known to map it, so other users of it are unknown too.
        return WaitEdge((External("another process with the semaphore"),), words=job.wait_state(key).words)
    users = [handle.pid for handle in job.holders.get(item.id, ()) if _may_release(job, handle.pid)]
    uses = [use for use in job.uses.get(item.id, ()) if job.is_alive(use.pid)]
    complete = bool(uses) and not (set(users) & job.without_ledger)
    if strangers := job.outsiders.get(item.id):
        outside = tuple(
            External(f"pid {pid}, which is not part of this job") for pid in dict.fromkeys(row.pid for row in strangers)
        )
        edge = _counted(job, key, item, [pid for pid in users if pid != key[0]], [])
        known = [target for target in edge.targets if not isinstance(target, NoReleaser)]
        return WaitEdge((*known, *outside), words=edge.words, evidence=edge.evidence)
    if complete and (stack := job.stacks.get(key)) and has(stack, *_NOTIFIES):
        return _woken(job, key, item, users)
    if _is_lock(uses) and complete:
        return _lock(job, key, item, uses, _busy(job, item, users))
    return _counted(job, key, item, [pid for pid in users if pid != key[0]], uses if complete else [])


_ROBUST_WAITERS, _ROBUST_TID = 0x8000_0000, 0x3FFF_FFFF
"""FUTEX_WAITERS and FUTEX_TID_MASK of linux/futex.h: the word of a robust pthread mutex, such as LMDB's, names its
owner.
"""


def _robust_owner(job: JobState, items: list[KernelObject]) -> WaitEdge | None:
    """For a robust mutex in shared memory: the living thread of the job that the mutex word names as its owner."""
    for item in items:
        word = item.value or 0
        owners = [row for row in job.snapshot.threads if row.tid == word & _ROBUST_TID]
        if word & _ROBUST_WAITERS and len(owners) == 1 and job.is_alive(owners[0].pid):
            owner = (owners[0].pid, owners[0].tid)
            words = f"a mutex that {job.role(owner[0]).name} holds"
            evidence = f"the word of the mutex {item.id} names thread {owner[1]} of pid {owner[0]} as its owner"
            return WaitEdge((owner,), every=True, basis=Basis.MEMORY, holder_known=True, words=words, evidence=evidence)
    return None


def _mutex_owner(job: JobState, items: list[KernelObject]) -> WaitEdge | None:
    """For another pthread mutex in shared memory: the thread that its owner word names, dead or alive."""
    item = next((item for item in items if item.owner_tid is not None), None)
    if item is None:
        return None
    owner = next(((row.pid, row.tid) for row in job.snapshot.threads if row.tid == item.owner_tid), None)
    evidence = f"the mutex {item.id} names thread {item.owner_tid} as its owner"
    if owner and job.is_alive(owner[0]):
        words = f"a mutex that {job.role(owner[0]).name} holds"
        return WaitEdge((owner,), every=True, basis=Basis.MEMORY, holder_known=True, words=words, evidence=evidence)
    if job.outsiders.get(item.id):
        return WaitEdge((External(f"thread {item.owner_tid} of another job"),), words="a mutex", evidence=evidence)
    why = f"{evidence}, and no process that has it has such a thread: it ended without releasing it"
    nobody = NoReleaser(why, (item.owner_tid,) if item.owner_tid else (), Absent.HOLDER_ENDED)
    # Memory without a name is shared by forks alone; a file may be mapped by a process that mpmon may not read.
    basis = Basis.MEMORY.when((item.path or "").endswith(" (deleted)"))
    return WaitEdge((nobody,), basis=basis, words="a mutex whose owner ended", evidence=why)


def _is_lock(uses: list[SemaphoreUse]) -> bool:
    """A semaphore of one permit that is released by the process that took it: no count is negative, and at most one process
    holds it.

    A lock that one process takes and another releases is used as a signal, and a bare `os.fork` copies the count.
    """
    counts = [use.count for use in uses]
    return all(use.max_value == 1 for use in uses) and min(counts, default=0) >= 0 and _owners(uses) <= 1


def _owners(uses: list[SemaphoreUse]) -> int:
    return sum(1 for use in uses if use.count > 0)


def _busy(job: JobState, item: KernelObject, users: list[int]) -> tuple[ThreadKey, ...]:
    """Working threads of the processes that have a semaphore. They may release it later even if they never acquired it: a
    semaphore may begin without permits, and a lock may be used as a signal. Libraries' own threads are excluded: they do
    not touch the user's semaphores.
    """
    threads = (key for pid in users for key in dict.fromkeys(((pid, pid), *job.threads(pid))))
    return tuple(key for key in threads if _works(job, item, key))


def _works(job: JobState, item: KernelObject, key: ThreadKey) -> bool:
    row, kind = job.blocked.get(key), job.wait_state(key).kind
    if job.wait_state(key).idle or job.serves_library(key) or (row is not None and item.id in row.waits_on):
        return False
    if kind in (Wait.SLEEP, Wait.RUNNING, Wait.FILE, Wait.GPU):
        return True
    ended = {f"process:{handle.pid}" for handle in job.holders.get(item.id, ())}
    if kind in (Wait.CHILD, Wait.JOIN_PROCESS):
        # Waiting for a called program counts as working: that program does not have the semaphore.
        return (
            row is not None
            and bool(row.waits_on)
            and not any(
                name in ended or not name.startswith("process:") or name == "process:any" for name in row.waits_on
            )
        )
    return job.motion(key) in (Motion.PROGRESSING, Motion.BUSY_LOOP)


def _lock(
    job: JobState, key: ThreadKey, item: KernelObject, uses: list[SemaphoreUse], busy: tuple[ThreadKey, ...]
) -> WaitEdge:
    """One permit: the process with a positive count holds it."""
    owners = [job.by_ident(use.pid, use.thread_ident) for use in uses if use.count > 0]
    lost = lost_relatives(job, key[0], certain=True)
    if busy and (key in owners or not (owners or any(gone.status for gone in lost))):
        return WaitEdge(tuple(dict.fromkeys((*owners, *busy))), words="a lock that other processes may release")
    if owners:
        names = several([job.role(pid).name for pid, _ in owners])
        evidence = f"{item.id} has value 0, and by its acquire counts pid {', '.join(str(pid) for pid, _ in owners)} acquired it"
        # Any process that has the lock may release it: a holder that waits for its own lock may use it as a signal.
        alone = not any(job.others_at_work(owner) for owner in owners)
        users = {handle.pid for handle in job.holders.get(item.id, ()) if _may_release(job, handle.pid)}
        exact = alone and not (key in owners and users - {key[0]})
        return WaitEdge(
            tuple(owners),
            every=True,
            basis=Basis.LEDGER.when(exact),
            holder_known=True,
            words=f"a lock held by {names}",
            evidence=evidence,
        )
    why = f"the lock {item.id} is taken, but no living process holds it: its holder ended without releasing it"
    dead = tuple(gone.pid for gone in lost)
    # Any process may release another's lock, unless it is recursive: else only a crash of the holder leaves no doubt.
    exact = any(gone.status for gone in lost) or all(use.recursive for use in uses)
    return WaitEdge(
        (NoReleaser(why, dead, Absent.HOLDER_ENDED),),
        basis=Basis.LEDGER.when(exact),
        words="a lock that no living process holds",
        evidence=why,
    )


def _counted(job: JobState, key: ThreadKey, item: KernelObject, users: list[int], uses: list[SemaphoreUse]) -> WaitEdge:
    """A semaphore of many permits, or one behind an event: the processes that hold or consumed permits, or at least map it."""
    kind, words = job.wait_state(key).kind, job.wait_state(key).words
    evidence = f"{item.id} has value 0"
    dead = lost_relatives(job, key[0], certain=False)
    if kind is Wait.QUEUE_PUT:
        consumers = [use.pid for use in uses if use.count < 0]
        rest = [pid for pid in users if not any(use.pid == pid and use.count > 0 for use in uses)] if uses else users
        users = consumers or rest
        # One living consumer suffices; exited processes matter only if none is left.
        dead = [] if consumers else dead
    elif kind is Wait.PROCESS_EVENT:
        # The processes outside the barrier have yet to arrive.
        users = (
            [pid for pid in users if not _is_in_barrier(job, pid, item)] if in_barrier(job.stacks.get(key)) else users
        )
    elif kind is Wait.LOCK and uses:
        return _permits(job, item, uses, tuple(gone.pid for gone in dead), _busy(job, item, [key[0], *users]))
    # Only a thread that takes items makes room in a queue, so its feeder thread does not count.
    hands = {pid: (pid, pid) if kind is Wait.QUEUE_PUT else _hand(job, pid) for pid in users if pid != key[0]}
    targets = tuple(dict.fromkeys(_taker(job, pid, item) or hand for pid, hand in hands.items()))
    if not targets and not dead:
        full = kind is Wait.QUEUE_PUT and any(use.max_value > 1 for use in uses)
        reason = Absent.NO_CONSUMER if full else Absent.HOLDER_ENDED
        if full and any(use.pid == key[0] and use.count < 0 for use in uses):
            reason = Absent.OWN_ROOM
        return WaitEdge((NoReleaser("no living process could release it", (key[0],), reason),), words=words)
    certain = [msgspec.structs.replace(gone, certain=True) for gone in dead] if not targets else dead
    return WaitEdge((*targets, *certain), words=words, evidence=evidence)


_NOTIFIES = ("multiprocessing/synchronize.py", ("notify",))
_SLEEPS = ("multiprocessing/synchronize.py", ("wait",))


def _woken(job: JobState, key: ThreadKey, item: KernelObject, users: list[int]) -> WaitEdge:
    """A thread that notifies a condition between processes waits until each that slept in it says that it woke
    (multiprocessing/synchronize.py): those in its `wait`, but none that has woken and now wants the lock of the condition.
    """
    others = (other for pid in users if pid != key[0] for other in job.threads(pid) or [(pid, pid)])
    owing = tuple(other for other in others if _may_sleep(job, other) and not _wants_lock_of(job, other, key[0]))
    words, evidence = "those it notified to wake up", f"{item.id} has value 0"
    if owing:
        return WaitEdge(owing, words=words, evidence=evidence)
    why = "all living processes that waited for it have said that they woke; one has ended without"
    gone = tuple(row.pid for row in lost_relatives(job, key[0], certain=True))
    return WaitEdge((NoReleaser(why, gone or (key[0],), Absent.SLEEPER_ENDED),), words=words, evidence=evidence)


def _may_sleep(job: JobState, key: ThreadKey) -> bool:
    """The thread waits for a condition between processes, as far as its stack is known."""
    stack = job.stacks.get(key)
    return stack is None or has(stack, *_SLEEPS)


def _wants_lock_of(job: JobState, key: ThreadKey, pid: int) -> bool:
    """The thread waits for a lock that this process has."""
    uses = (use for item in job.waits_on(key) for use in job.uses.get(item.id, ()) if use.pid == pid)
    return any(use.max_value == 1 and use.count > 0 for use in uses)


def _is_in_barrier(job: JobState, pid: int, item: KernelObject) -> bool:
    row = job.blocked.get((pid, pid))
    return row is not None and item.id in row.waits_on and in_barrier(job.stacks.get((pid, pid)))


def _taker(job: JobState, pid: int, item: KernelObject) -> ThreadKey | None:
    """A thread other than the main thread that itself waits for the semaphore: the user of the queue in that process."""
    main = (pid, pid)
    waiting = [key for key in job.threads(pid) if (row := job.blocked.get(key)) and item.id in row.waits_on]
    return waiting[0] if waiting and main not in waiting else None


def _permits(
    job: JobState, item: KernelObject, uses: list[SemaphoreUse], dead: tuple[int, ...], busy: tuple[ThreadKey, ...]
) -> WaitEdge:
    """A semaphore of several permits, or one that any process may release: the processes that released more than they took,
    else the holders of permits and all working threads.
    """
    givers = [use for use in uses if use.count < 0]
    owners = tuple(job.by_ident(use.pid, use.thread_ident) for use in uses if use.count > 0)
    if givers:
        return WaitEdge(tuple((use.pid, use.pid) for use in givers), words="a semaphore that other processes release")
    if not owners and busy:
        return WaitEdge(busy, words="a semaphore that other processes release", evidence=f"{item.id} has value 0")
    if not owners:
        why = f"no living process holds a permit of {item.id}, and none that uses it is making progress"
        return WaitEdge(
            (NoReleaser(why, dead, Absent.HOLDER_ENDED),),
            words="a semaphore whose permits no living process holds",
            evidence=why,
        )
    names = several([job.role(pid).name for pid, _ in owners])
    evidence = (
        f"{item.id} has value 0, and by its acquire counts pid {', '.join(str(pid) for pid, _ in owners)} took permits"
    )
    targets = tuple(dict.fromkeys((*owners, *busy)))
    return WaitEdge(
        targets, holder_known=not busy, words=f"a semaphore whose permits were taken by {names}", evidence=evidence
    )


def _may_release(job: JobState, pid: int) -> bool:
    return job.is_alive(pid) and job.role(pid).kind not in HELPERS


def queue_item(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """A multiprocessing queue blocks in its lock or semaphore, or in its pipe."""
    locked = any(item.kind == "semaphore" for item in job.waits_on(key))
    return semaphore(job, key) if locked else message(job, key)


def file_lock(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """flock(2) and fcntl(2): the processes whose open files hold the lock."""
    asked = list(job.waits_on(key))
    items = asked or polled_locks(job, key, job.read_wait(key).kind) or locks_of_others(job, key[0])
    pids = list(dict.fromkeys(pid for item in items for pid in item.kept_by(key[0])))
    inside = [(pid, pid) for pid in pids if job.is_alive(pid)]
    path = next((item.path for item in items if item.path), "a file")
    words = f"the lock on {path}"
    if heirs := _heirs(job, items):
        taker, keeper = (several([str(pid) for pid in pids]) for pids in (items[0].takers, heirs))
        since = "closed it" if all(map(job.is_alive, items[0].takers)) else "ended"
        why = (
            f"{path} was locked by pid {taker}, which has since {since}; the open file that pid "
            f"{keeper} inherited through a fork keeps the lock: /proc/locks, and `lock:` in /proc/PID/fdinfo"
        )
        return WaitEdge(
            (NoReleaser(why, heirs, Absent.INHERITED),), basis=Basis.KERNEL.when(bool(asked)), words=words, evidence=why
        )
    if inside:
        evidence = f"{path} is locked by pid {', '.join(map(str, pids))}: /proc/locks, and `lock:` in /proc/PID/fdinfo"
        # An open file shared through a fork is one lock, and each process that has it open may release it.
        others = {handle.pid for item in items for handle in job.holders.get(item.id, ())} - {key[0], *pids}
        exact = bool(asked) and not others and not any(job.others_at_work(owner) for owner in inside)
        return WaitEdge(
            tuple(inside),
            every=bool(asked),
            basis=Basis.KERNEL.when(exact),
            holder_known=True,
            words=words,
            evidence=evidence,
        )
    if pids:
        return WaitEdge(
            (External(f"pid {pids[0]}, which is not part of this job, holds {words}"),), basis=Basis.KERNEL, words=words
        )
    if not asked:
        return _of_own_connection(job, key, items[0]) if items else _unknown_file_lock(job, key)
    own = next((item for item in asked if key[0] in item.holders), None)
    return _own_file_lock(job, key, own) if own and job.blocked[key].syscall == "flock" else None


def _heirs(job: JobState, items: list[KernelObject]) -> tuple[int, ...]:
    """Processes that hold a file lock only because they inherited the open file at a fork, while the process that took the
    lock has closed the file or ended. They never end by themselves: their loop has no exit, or they accept connections.
    """
    if len(items) != 1 or not items[0].takers or not all(map(job.is_alive, items[0].holders)):
        return ()
    return items[0].holders if all(_stays(job, (pid, pid)) for pid in items[0].holders) else ()


def _stays(job: JobState, key: ThreadKey) -> bool:
    return job.tests(key) == () or any(item.listens for item in job.waits_on(key))


def _own_file_lock(job: JobState, key: ThreadKey, item: KernelObject) -> WaitEdge:
    """flock(2): two open file descriptions of one process exclude each other. Another thread may close the locked one, or a
    process that inherited it by fork may unlock it; else the thread waits for itself.
    """
    waiting = {pid for (pid, _), row in job.blocked.items() if item.id in row.waits_on}
    heirs = {handle.pid for handle in job.holders.get(item.id, ())} - waiting
    others = [(pid, pid) for pid in sorted(heirs) if _may_release(job, pid) and not job.wait_state((pid, pid)).idle]
    targets = (*job.others_at_work(key), *others)
    path = item.path or "a file"
    evidence = (
        f"{path} is locked by pid {key[0]} itself, through a different open file than the one it waits on: /proc/locks, and "
        "`lock:` in /proc/PID/fdinfo"
    )
    return WaitEdge(
        targets or (key,),
        basis=Basis.KERNEL.when(not targets),
        holder_known=True,
        words=f"the lock on {path}",
        evidence=evidence,
    )


def _of_own_connection(job: JobState, key: ThreadKey, item: KernelObject) -> WaitEdge:
    """SQLite: another connection of the same process has the lock, in another thread or in the waiting one itself."""
    others = tuple(job.others_at_work(key))
    path = (item.path or "a file").removesuffix(SHARED_MEMORY)
    evidence = f"{path} is open more than once in pid {key[0]}, and locked by it: /proc/locks"
    return WaitEdge(others or (key,), holder_known=not others, words=f"the lock on {path}", evidence=evidence)


def _unknown_file_lock(job: JobState, key: ThreadKey) -> WaitEdge:
    """For an unidentified file lock: between two attempts no system call names the file, and some locks are merely the
    existence of a file.
    """
    others = [pid for pid in job.processes if pid != key[0] and _may_release(job, pid)]
    working = tuple((pid, pid) for pid in others if not job.wait_state((pid, pid)).idle)
    return WaitEdge((*job.others_at_work(key), *working, External("the holder of the lock")), words="a file lock")


def _object_words(job: JobState, items: list[KernelObject], *, writes: bool) -> str:
    for item in items:
        if item.kind == "pipe" and item.fill is not None:
            return f"{item.id} holds {item.fill} of {item.capacity} bytes"
        if words := connection_words(job, item, writes=writes):
            return words
    return ""


def _outside_words(items: list[KernelObject]) -> str:
    for item in items:
        if item.kind == "socket" and item.path:
            return item.path
        if item.kind == "terminal":
            return "a person at the terminal"
    return "something outside the job"
