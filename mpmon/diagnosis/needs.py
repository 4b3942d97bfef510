"""From what a thread waits in to whom it waits for: one function a kind of wait, in the table `NEEDS`.

Every function answers with the targets that could end the wait.  Too many targets make mpmon careful (any of them may
help), too few make it wrong, so a set is only narrowed by facts: who holds the other end, who is idle, who ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.frames import bare, has
from mpmon.diagnosis.graph import Gone, Need, Nobody, Node, Outside, Status, Target
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.life import signs_of_life
from mpmon.diagnosis.motion import Motion
from mpmon.diagnosis.roles import HELPERS
from mpmon.diagnosis.waits import Context, Wait, context
from mpmon.diagnosis.words import several
from mpmon.model import KernelObject, SemaphoreUse

SOON_S = 30.0
"""A sleep that ends within this time is a pause, not a hang."""

QUEUES_FILE = "multiprocessing/queues.py"

_ALWAYS_WAITS = frozenset({Wait.LAUNCHER})
"""Loops that only look after others: that they run says nothing."""


def node(case: Case, key: ThreadKey) -> Node:
    """The node of one thread."""
    standing, motion = case.standing(key), case.motion(key)
    if not case.is_alive(key[0]):
        return Node(key, Status.LEAF)
    if standing.kind is Wait.STOPPED:
        return Node(key, Status.LEAF)
    if standing.idle:
        return Node(key, Status.IDLE)
    if standing.kind not in _ALWAYS_WAITS and motion is Motion.MOVING:
        return Node(key, Status.LIVE)
    if owner := _gil_owner(case, key):
        return Node(key, Status.WAITS, _gil(case, owner))
    need_of = NEEDS.get(standing.kind)
    if need_of is None:
        return Node(key, _leaf(case, key, motion))
    need = need_of(case, key)
    return Node(key, Status.LIVE) if need is None else Node(key, Status.WAITS, need)


def _gil_owner(case: Case, key: ThreadKey) -> ThreadKey | None:
    """Who keeps the GIL from a thread that asks for it: a lock of its own, with a deadline of milliseconds (take_gil)."""
    blocked = case.blocked.get(key)
    asks = blocked is not None and blocked.syscall == "futex" and blocked.wakes_at is not None
    return case.gil_owner(key) if asks else None


def _gil(case: Case, owner: ThreadKey) -> Need:
    name = case.thread_name(owner)
    evidence = f"py-spy: thread {name} of pid {owner[0]} owns the GIL"
    return Need((owner,), every=True, exact=True, words=f"the GIL, which thread {name} holds", evidence=evidence)


def _leaf(case: Case, key: ThreadKey, motion: Motion) -> Status:
    """It waits for nobody in the job: does it end by itself?"""
    if motion is Motion.UNSEEN:
        return Status.LIVE
    blocked = case.blocked.get(key)
    if motion is Motion.FROZEN and blocked and blocked.wakes_at is not None and blocked.wakes_at - case.now < SOON_S:
        return Status.LIVE
    if motion in (Motion.NAPPING, Motion.SPINNING) and signs_of_life(case, key):
        return Status.LIVE
    if motion is Motion.SPINNING and context(case.stacks.get(key)) is None:
        # Code that nobody called on behalf of others may compute as long as it likes.
        return Status.LIVE
    return Status.LEAF


# Waits for a servant


def _loader_batch(case: Case, key: ThreadKey) -> Need | None:
    """The worker whose batch is next in order; else all that have something to do: the others are idle by right."""
    if _has_mail(case, key):
        return None
    workers = _loader_workers(case, key)
    awaited = _awaited_worker(case, key, workers)
    busy = list(_busy(case, workers))
    next_busy = [other for other in busy if other[0] == awaited]
    if next_busy:
        words = f"batch from {case.role(next_busy[0][0]).name}"
        return Need(tuple(next_busy), exact=True, words=words, evidence=_idle_words(case, workers))
    if busy:
        names = several([case.role(pid).name for pid in dict.fromkeys(pid for pid, _ in busy)])
        return Need(tuple(busy), words=f"batch from {names}", evidence=_idle_words(case, workers))
    gone = _gone_children(case, key[0], "dataloader worker")
    if gone:
        return Need(tuple(gone), words="batch from a DataLoader worker that ended")
    if not workers:
        return Need((Nobody("it has no DataLoader workers"),), words="next batch")
    return _lost_batch(case, workers, awaited)


def _lost_batch(case: Case, workers: list[int], awaited: int | None) -> Need:
    why = "all its DataLoader workers wait for work and nothing is in the queue: a batch was lost"
    if awaited is None:
        return Need((Nobody(why, tuple(workers)),), words="a batch that never comes")
    why = f"{case.role(awaited).name}, whose batch is next, waits for work and nothing is in the queue: the batch was lost"
    return Need((Nobody(why, (awaited,)),), exact=True, words="a batch that never comes")


def _loader_workers(case: Case, key: ThreadKey) -> list[int]:
    """The workers of the loader this thread reads from: with several loaders, those that hold its queue."""
    workers = [pid for pid in case.clients.get(key[0], ()) if case.role(pid).kind == "dataloader worker"]
    pipes = {item.id for item in case.waits_on(key) if item.kind == "pipe"}
    return [pid for pid in workers if pipes & case.held_by.get(pid, frozenset())] or workers


def _awaited_worker(case: Case, key: ThreadKey, workers: list[int]) -> int | None:
    """Who has the batch that is next in order: `worker_id` in torch's `_next_data` (torch/utils/data/dataloader.py)."""
    stack = case.stacks.get(key)
    frame = next((row for row in stack.frames if bare(row.function) == "_next_data"), None) if stack else None
    number = (frame.known or {}).get("worker_id") if frame else None
    named = [pid for pid in workers if case.role(pid).name == f"dataloader worker {number}"]
    return named[-1] if named else None


def _pool_result(case: Case, key: ThreadKey) -> Need | None:
    """Busy workers of the pool, or busy threads of an executor in this process."""
    workers = [pid for pid in case.clients.get(key[0], ()) if case.role(pid).kind in ("pool worker", "process")]
    threads = [
        other
        for other in case.threads(key[0])
        if other != key and (found := context(case.stacks.get(other))) and found[0] is Context.EXECUTOR_THREAD
    ]
    busy = [*_busy(case, workers), *threads]
    if busy:
        return Need(tuple(busy), words="result of a pool task", evidence=_idle_words(case, workers))
    if gone := _gone_children(case, key[0], "pool worker"):
        return Need(tuple(gone), words="result from a pool worker that ended")
    if _service_busy(case, key[0]):
        return None
    return Need(
        (Nobody("all pool workers wait for work: the task's result was lost", tuple(workers)),), words="pool result"
    )


def _busy(case: Case, pids: Iterable[int]) -> Iterator[ThreadKey]:
    """Threads of these processes that are not idle: the main thread, else a helper that is held up."""
    for pid in pids:
        if not case.is_alive(pid):
            continue
        if not case.standing((pid, pid)).idle:
            yield pid, pid
            continue
        for other in case.threads(pid):
            if other[1] != pid and case.standing(other).kind in (Wait.PIPE_WRITE, Wait.LOCK):
                yield other


def _idle_words(case: Case, pids: Iterable[int]) -> str:
    idle = [case.role(pid).name for pid in pids if case.standing((pid, pid)).idle]
    if not idle:
        return ""
    return f"{', '.join(idle[:4])}{' …' if len(idle) > 4 else ''} idle: waits for work"


def _service_busy(case: Case, pid: int) -> bool:
    """A helper thread of the pool that runs may be about to bring the result."""
    return any(
        case.motion(key) is Motion.MOVING for key in case.threads(pid) if case.standing(key).kind is Wait.SERVICE
    )


# Waits for an end


def _end_of_process(case: Case, key: ThreadKey) -> Need | None:
    pid = key[0]
    targets: list[Target] = []
    # A fork server's children are the kernel's children of the server and work for this process.
    near = dict.fromkeys((*case.children.get(pid, ()), *case.clients.get(pid, ())))
    children = [child for child in near if case.role(child).kind not in HELPERS]
    named = [item.id.partition(":")[2] for item in case.waits_on(key) if item.kind == "process"]
    for name in named:
        targets += _exits(case, children if name == "any" else [int(name)] if name.lstrip("-").isdigit() else [])
    if not targets:
        targets = list(_exits(case, _sentinels(case, key, children) or children))
    if not targets:
        return _no_children(case, key)
    names = ", ".join(_name(case, target) for target in targets[:4])
    every = len(targets) > 1
    return Need(tuple(targets), every=every, exact=bool(named), words=f"the end of {names}")


def _exits(case: Case, pids: Iterable[int]) -> Iterator[Target]:
    for pid in pids:
        if case.is_alive(pid):
            yield pid, pid


def _sentinels(case: Case, key: ThreadKey, children: list[int]) -> list[int]:
    """Multiprocessing watches a pipe whose other end only the child holds: popen_fork.py, popen_spawn_posix.py."""
    pipes = {item.id for item in case.waits_on(key) if item.kind == "pipe"}
    waited = [pid for pid in case.clients.get(key[0], children) if case.role(pid).kind not in HELPERS]
    return [
        pid for pid in waited
        if any(handle.writes and handle.pid == pid for name in pipes for handle in case.holders.get(name, ()))
    ]  # fmt: skip


def _no_children(case: Case, key: ThreadKey) -> Need | None:
    zombies = [pid for pid in case.children.get(key[0], ()) if not case.is_alive(pid)]
    return None if zombies else Need((Outside("a process outside the job"),), words="the end of a child")


def _end_of_thread(case: Case, key: ThreadKey) -> Need | None:
    """Which thread is joined is not in the frames; those that are idle or serve would not be joined."""
    others = [other for other in case.threads(key[0]) if other != key]
    working = [other for other in others if not case.standing(other).idle] or others
    if not working:
        return (
            _end_of_process(case, key)
            if case.children.get(key[0])
            else Need((Nobody("no other Python thread is left in this process"),), words="a thread to end")
        )
    return Need(tuple(working), every=len(working) > 1, words="a thread to end")


def _exit(case: Case, key: ThreadKey) -> Need | None:
    """At interpreter exit: children by wait4, else the threads that are not daemons."""
    if any(item.kind == "process" for item in case.waits_on(key)):
        return _end_of_process(case, key)
    return _end_of_thread(case, key)


def _ranks(case: Case, key: ThreadKey) -> Need | None:
    """A launcher waits until every rank has ended."""
    children = [
        pid for pid in case.clients.get(key[0], ()) if case.role(pid).kind not in HELPERS and case.is_alive(pid)
    ]
    if not children:
        return None
    return Need(tuple((pid, pid) for pid in children), every=True, words="its ranks to end")


# Waits for what somebody holds or sends


def _message(case: Case, key: ThreadKey) -> Need | None:
    """Somebody who holds the other end of the pipe or socket, or the lock in front of it."""
    if _has_mail(case, key):
        return None
    objects = list(case.waits_on(key))
    writes = bool((row := case.blocked.get(key)) and row.writes)
    ends = dict.fromkeys(target for item in objects for target in _other_ends(case, key, item, writes=writes))
    words, evidence = case.standing(key).words, _fill_words(objects)
    pipe = next((item for item in objects if item.kind == "pipe"), None)
    dead = _dead_relatives(case, key[0], certain=not ends) if pipe else []
    if ends or dead:
        return Need((*ends, *dead), exact=bool(ends) and pipe is not None, words=words, evidence=evidence)
    if pipe:
        why = f"no other process {'reads' if writes else 'writes'} {pipe.id}"
        return Need((Nobody(why, (key[0],)),), exact=True, words=words, evidence=evidence)
    return Need((Outside(_outside_words(objects)),), words=words)


def _dead_relatives(case: Case, pid: int, *, certain: bool) -> list[Gone]:
    """Children and siblings that ended and were not collected: they may have been the other end."""
    parent = case.processes[pid].ppid
    return [
        Gone(other, exit_words(case.processes[other].exit_code), certain)
        for other in case.zombies
        if case.processes[other].ppid in (pid, parent) and other != pid
    ]


def _other_ends(case: Case, key: ThreadKey, item: KernelObject, *, writes: bool) -> Iterator[Target]:
    if item.kind == "process":
        name = item.id.partition(":")[2]
        yield from _exits(case, [int(name)] if name.isdigit() else [])
        return
    name = item.peer if item.kind == "socket" else item.id
    for handle in case.holders.get(name or "", ()):
        helps = handle.reads if writes else handle.writes
        if handle.pid != key[0] and helps and case.is_alive(handle.pid) and case.role(handle.pid).kind not in HELPERS:
            yield _hand(case, handle.pid)


def _hand(case: Case, pid: int) -> ThreadKey:
    """The thread of a process that would act: a feeder thread that is held up while it sends, else the main thread."""
    for other in case.threads(pid):
        stack = case.stacks.get(other)
        if stack and case.standing(other).kind in (Wait.LOCK, Wait.PIPE_WRITE) and has(stack, QUEUES_FILE, ("_feed",)):
            return other
    return pid, pid


def _has_mail(case: Case, key: ThreadKey) -> bool:
    """Bytes to read are there already, so it is about to go on."""
    row = case.blocked.get(key)
    return not (row and row.writes) and any(item.kind == "pipe" and item.fill for item in case.waits_on(key))


def _semaphore(case: Case, key: ThreadKey) -> Need | None:
    """A lock or semaphore between processes: its holder by the ledger, else whoever maps it."""
    items = [item for item in case.waits_on(key) if item.kind == "semaphore"]
    if not items:
        return _other_threads(case, key)
    if any(item.value for item in items):
        return None
    item = items[0]
    users = [handle.pid for handle in case.holders.get(item.id, ()) if _may_release(case, handle.pid)]
    uses = [use for use in case.uses.get(item.id, ()) if case.is_alive(use.pid)]
    complete = bool(uses) and not (set(users) & case.without_ledger)
    if all(use.max_value == 1 for use in uses) and complete:
        return _lock(case, key, item, uses)
    return _counted(case, key, item, [pid for pid in users if pid != key[0]], uses if complete else [])


def _lock(case: Case, key: ThreadKey, item: KernelObject, uses: list[SemaphoreUse]) -> Need:
    """One permit: the process whose count is positive has it."""
    owners = [case.by_ident(use.pid, use.thread_ident) for use in uses if use.count > 0]
    if owners:
        names = several([case.role(pid).name for pid, _ in owners])
        evidence = (
            f"{item.id} has value 0, and by its ledger pid {', '.join(str(pid) for pid, _ in owners)} acquired it"
        )
        return Need(tuple(owners), every=True, exact=True, words=f"a lock held by {names}", evidence=evidence)
    why = f"the lock {item.id} is taken, but no living process holds it: its holder ended without releasing it"
    dead = tuple(gone.pid for gone in _dead_relatives(case, key[0], certain=True))
    return Need((Nobody(why, dead),), exact=True, words="a lock that nobody alive holds", evidence=why)


def _counted(case: Case, key: ThreadKey, item: KernelObject, users: list[int], uses: list[SemaphoreUse]) -> Need:
    """Many permits, or an event: whoever has some, consumed some, or at least maps it."""
    kind, words = case.standing(key).kind, case.standing(key).words
    evidence = f"{item.id} has value 0"
    dead = _dead_relatives(case, key[0], certain=False)
    if kind is Wait.QUEUE_PUT:
        consumers = [use.pid for use in uses if use.count < 0]
        rest = [pid for pid in users if not any(use.pid == pid and use.count > 0 for use in uses)] if uses else users
        users = consumers or rest
    elif kind is Wait.LOCK and uses:
        users = [use.pid for use in uses if use.count > 0 and use.pid != key[0]]
        if not users and not any(use.count > 0 for use in uses):
            why = f"no living process has a permit of {item.id}: they ended without giving them back"
            return Need((Nobody(why, tuple(gone.pid for gone in dead)),), exact=True, words=words, evidence=why)
    targets = tuple(dict.fromkeys(_hand(case, pid) for pid in users if pid != key[0]))
    if not targets and not dead:
        return Need((Nobody("no living process could release it", (key[0],)),), exact=True, words=words)
    certain = [Gone(gone.pid, gone.how) for gone in dead] if not targets else dead
    return Need((*targets, *certain), words=words, evidence=evidence)


def _may_release(case: Case, pid: int) -> bool:
    return case.is_alive(pid) and case.role(pid).kind not in HELPERS


def _queue(case: Case, key: ThreadKey) -> Need | None:
    """A multiprocessing queue blocks in its lock or semaphore, or in its pipe."""
    semaphore = any(item.kind == "semaphore" for item in case.waits_on(key))
    return _semaphore(case, key) if semaphore else _message(case, key)


def _file_lock(case: Case, key: ThreadKey) -> Need | None:
    items = list(case.waits_on(key))
    pids = [pid for item in items for pid in item.holders if pid != key[0]]
    inside = [(pid, pid) for pid in pids if case.is_alive(pid)]
    path = next((item.path for item in items if item.path), "a file")
    words = f"the lock on {path}"
    if inside:
        evidence = f"/proc/locks: {path} is locked by pid {', '.join(map(str, pids))}"
        return Need(tuple(inside), every=True, exact=True, words=words, evidence=evidence)
    if pids:
        return Need((Outside(f"pid {pids[0]}, which is not of this job, holds {words}"),), exact=True, words=words)
    return None


def _native_mutex(case: Case, key: ThreadKey) -> Need | None:
    owner = next((item.owner_tid for item in case.waits_on(key) if item.owner_tid), None)
    if owner is None:
        return _other_threads(case, key)
    if case.past((key[0], owner)):
        return Need(
            ((key[0], owner),), every=True, exact=True, words="a native mutex", evidence=f"its owner is thread {owner}"
        )
    why = f"the native mutex is owned by thread {owner}, which is no thread of this process: taken before the fork"
    return Need((Nobody(why, (key[0],)),), exact=True, words="a native mutex")


def _other_threads(case: Case, key: ThreadKey) -> Need | None:
    """A lock, condition or queue between threads: any other Python thread of the process that is not idle itself."""
    words = case.standing(key).words
    others = [other for other in case.threads(key[0]) if other != key and not case.standing(other).idle]
    if others:
        return Need(tuple(others), words=words)
    return Need(
        (Nobody("no other Python thread of this process is left that could end the wait", (key[0],)),), words=words
    )


def _collective(case: Case, key: ThreadKey) -> Need | None:
    """Every rank that is not in a collective must come; when all are in one, they may be in different ones."""
    words = case.standing(key).words
    ranks = _ranks_of_group(case)
    if key[0] not in ranks:
        # A backward pass without a process group: a native wait like any other.
        return _native_mutex(case, key)
    dead = _dead_relatives(case, key[0], certain=True)
    if dead:
        return Need(tuple(dead), every=True, words=f"{words} with a rank that ended")
    absent = [(pid, pid) for pid in ranks if pid != key[0] and not _in_collective(case, pid)]
    if absent:
        names = several([case.role(pid).name for pid, _ in absent])
        return Need(tuple(absent), every=True, words=f"{words} with {names}")
    size = case.role(key[0]).world_size
    if size is not None and len(ranks) < size:
        return Need((Outside(f"{size - len(ranks)} of {size} ranks, which do not run here"),), words=words)
    others = [(pid, pid) for pid in ranks if pid != key[0]]
    if others:
        return Need(
            tuple(others), every=True, words=f"{words} with {several([case.role(pid).name for pid, _ in others])}"
        )
    return Need((Outside("ranks on other machines"),), words=words)


def _ranks_of_group(case: Case) -> list[int]:
    return [pid for pid, role in case.roles.items() if role.kind == "rank" and case.is_alive(pid)]


def _in_collective(case: Case, pid: int) -> bool:
    return case.standing((pid, pid)).kind is Wait.COLLECTIVE


def _rendezvous(case: Case, key: ThreadKey) -> Need | None:
    """Ranks that run here and are not in the rendezvous; else those that were never started."""
    ranks = _ranks_of_group(case)
    dead = _dead_relatives(case, key[0], certain=True)
    if dead:
        return Need(tuple(dead), every=True, words="init_process_group with a rank that ended")
    absent = [
        (pid, pid) for pid in ranks
        if pid != key[0] and case.standing((pid, pid)).kind not in (Wait.RENDEZVOUS, Wait.COLLECTIVE)
    ]  # fmt: skip
    if absent:
        names = several([case.role(pid).name for pid, _ in absent])
        return Need(tuple(absent), every=True, words=f"init_process_group with {names}")
    size = max((case.role(pid).world_size or 0 for pid in ranks), default=0)
    if len(ranks) < size:
        here = {case.role(pid).rank for pid in ranks}
        missing = several([f"rank {number}" for number in range(size) if number not in here])
        parent = case.role(key[0]).parent
        why = f"world size is {size}, but only {len(ranks)} ranks run here: {missing} never came"
        return Need((Nobody(why, (parent,) if parent else ()),), words=f"{missing} to come", evidence=why)
    return Need((Outside("the store, or ranks on other machines"),), words="the other ranks to come")


def _gone_children(case: Case, parent: int, kind: str) -> list[Gone]:
    """Children of this kind that ended: zombies, and those mpmon saw end."""
    found = [
        Gone(pid, exit_words(case.processes[pid].exit_code))
        for pid in case.children.get(parent, ())
        if not case.is_alive(pid) and case.role(pid).kind in (kind, "process", "subprocess")
    ]
    seen = [
        Gone(row.pid, "ended while mpmon watched")
        for row in case.snapshot.exits
        if row.process.ppid == parent and row.process.name == "pt_data_worker" and kind == "dataloader worker"
    ]
    return found or seen


def exit_words(code: int | None) -> str:
    """wait(2)'s status in words."""
    if code is None:
        return "ended"
    if signal := code & 0x7F:
        return f"killed by signal {signal}"
    return f"ended with exit status {code >> 8 & 0xFF}"


def _fill_words(items: list[KernelObject]) -> str:
    for item in items:
        if item.kind == "pipe" and item.fill is not None:
            return f"{item.id} holds {item.fill} of {item.capacity} bytes"
    return ""


def _outside_words(items: list[KernelObject]) -> str:
    for item in items:
        if item.kind == "socket" and item.path:
            return item.path
        if item.kind == "terminal":
            return "a person at the terminal"
    return "something outside the job"


def _name(case: Case, target: Target) -> str:
    return case.role(target[0]).name if isinstance(target, tuple) else str(target)


NEEDS: dict[Wait, Callable[[Case, ThreadKey], Need | None]] = {
    Wait.LOADER_BATCH: _loader_batch,
    Wait.POOL_RESULT: _pool_result,
    Wait.FUTURE_RESULT: _pool_result,
    Wait.JOIN_PROCESS: _end_of_process,
    Wait.CHILD: _end_of_process,
    Wait.JOIN_THREAD: _end_of_thread,
    Wait.EXIT: _exit,
    Wait.LAUNCHER: _ranks,
    Wait.QUEUE_GET: _queue,
    Wait.QUEUE_PUT: _queue,
    Wait.PIPE_READ: _message,
    Wait.PIPE_WRITE: _message,
    Wait.POLL: _message,
    Wait.SOCKET: _message,
    Wait.LOCK: _semaphore,
    Wait.PROCESS_EVENT: _semaphore,
    Wait.FILE_LOCK: _file_lock,
    Wait.MUTEX: _native_mutex,
    Wait.FUTEX: _native_mutex,
    Wait.THREAD_QUEUE: _other_threads,
    Wait.CONDITION: _other_threads,
    Wait.COLLECTIVE: _collective,
    Wait.RENDEZVOUS: _rendezvous,
}
"""Kinds without a row are leaves: they wait for nobody in the job."""
