"""From what a thread waits in to whom it waits for: one function a kind of wait, in the table `NEEDS`.

Every function answers with the targets that could end the wait.  Too many targets make mpmon careful (any of them may
help), too few make it wrong, so a set is only narrowed by facts: who holds the other end, who is idle, who ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from mpmon.diagnosis.case import Case
from mpmon.diagnosis.graph import Gone, Need, Nobody, Node, Outside, Status, Target
from mpmon.diagnosis.history import ThreadKey
from mpmon.diagnosis.life import signs_of_life
from mpmon.diagnosis.motion import Motion
from mpmon.diagnosis.roles import HELPERS
from mpmon.diagnosis.waits import Context, Wait, context
from mpmon.model import KernelObject

SOON_S = 30.0
"""A sleep that ends within this time is a pause, not a hang."""

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
    need_of = NEEDS.get(standing.kind)
    if need_of is None:
        return Node(key, _leaf(case, key, motion))
    need = need_of(case, key)
    return Node(key, Status.LIVE) if need is None else Node(key, Status.WAITS, need)


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
    """The workers that have something to do; the others are idle by right."""
    pipes = {item.id for item in case.waits_on(key) if item.kind == "pipe"}
    if _has_mail(case, key):
        return None
    workers = [pid for pid in case.clients.get(key[0], ()) if case.role(pid).kind == "dataloader worker"]
    if pipes:
        # With several loaders: the workers that hold the queue this one waits for.
        workers = [pid for pid in workers if pipes & case.held_by.get(pid, frozenset())] or workers
    busy = list(_busy(case, workers))
    if busy:
        names = ", ".join(case.role(pid).name for pid in dict.fromkeys(pid for pid, _ in busy))
        return Need(tuple(busy), words=f"batch from {names}", evidence=_idle_words(case, workers))
    gone = _gone_children(case, key[0], "dataloader worker")
    if gone:
        return Need(tuple(gone), words="batch from a DataLoader worker that ended")
    if not workers:
        return Need((Nobody("it has no DataLoader workers"),), words="next batch")
    why = "all its DataLoader workers wait for work and nothing is in the queue: a batch was lost"
    return Need((Nobody(why, tuple(workers)),), words="a batch that never comes")


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
    children = [child for child in case.children.get(pid, ()) if case.role(child).kind not in HELPERS]
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
    waited = case.clients.get(key[0], children)
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
    targets: list[Target] = []
    for item in objects:
        targets += _other_ends(case, key, item, writes=writes)
    pipes = [item for item in objects if item.kind in ("pipe", "socket")]
    if targets:
        return Need(
            tuple(dict.fromkeys(targets)),
            exact=bool(pipes),
            words=_object_words(case, key),
            evidence=_fill_words(objects),
        )
    if pipes and pipes[0].kind == "pipe":
        other = "reads" if writes else "writes"
        return Need((Nobody(f"no other process {other} {pipes[0].id}"),), exact=True, words=_object_words(case, key))
    return Need((Outside(_outside_words(objects)),), words=_object_words(case, key))


def _other_ends(case: Case, key: ThreadKey, item: KernelObject, *, writes: bool) -> Iterator[Target]:
    if item.kind == "process":
        name = item.id.partition(":")[2]
        yield from _exits(case, [int(name)] if name.isdigit() else [])
        return
    name = item.peer if item.kind == "socket" else item.id
    for handle in case.holders.get(name or "", ()):
        helps = handle.reads if writes else handle.writes
        if handle.pid != key[0] and helps and case.is_alive(handle.pid) and case.role(handle.pid).kind not in HELPERS:
            yield handle.pid, handle.pid


def _has_mail(case: Case, key: ThreadKey) -> bool:
    """Bytes to read are there already, so it is about to go on."""
    row = case.blocked.get(key)
    return not (row and row.writes) and any(item.kind == "pipe" and item.fill for item in case.waits_on(key))


def _semaphore(case: Case, key: ThreadKey) -> Need | None:
    """A lock or semaphore between processes: whoever maps it may release it."""
    items = [item for item in case.waits_on(key) if item.kind == "semaphore"]
    if not items:
        return _other_threads(case, key)
    if any(item.value for item in items):
        return None
    targets = [
        (handle.pid, handle.pid)
        for item in items
        for handle in case.holders.get(item.id, ())
        if handle.pid != key[0] and case.is_alive(handle.pid) and case.role(handle.pid).kind not in HELPERS
    ]
    if not targets:
        return Need((Nobody("no living process maps the semaphore"),), exact=True, words=_object_words(case, key))
    return Need(tuple(dict.fromkeys(targets)), words=_object_words(case, key), evidence=f"{items[0].id} has value 0")


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
    """A lock, condition or queue between threads: any other Python thread of the process may release it."""
    others = [other for other in case.threads(key[0]) if other != key]
    if not others:
        why = "no other Python thread exists in this process that could release it"
        return Need((Nobody(why, (key[0],)),), words="a lock of this process")
    return Need(tuple(others), words=case.standing(key).words)


def _collective(case: Case, key: ThreadKey) -> Need | None:
    """Every rank that is not in a collective must come; when all are in one, they may be in different ones."""
    ranks = [pid for pid, role in case.roles.items() if role.kind == "rank" and case.is_alive(pid)]
    ranks = ranks or _communicating(case)
    absent = [(pid, pid) for pid in ranks if pid != key[0] and not _in_collective(case, pid)]
    if absent:
        names = ", ".join(case.role(pid).name for pid, _ in absent[:4])
        return Need(tuple(absent), every=True, words=f"{case.standing(key).words} with {names}")
    others = [(pid, pid) for pid in ranks if pid != key[0]]
    if others:
        return Need(tuple(others), every=True, words=case.standing(key).words)
    return Need((Outside("ranks on other machines"),), words=case.standing(key).words)


def _communicating(case: Case) -> list[int]:
    return [pid for pid in case.processes if case.standing((pid, pid)).kind is Wait.COLLECTIVE]


def _in_collective(case: Case, pid: int) -> bool:
    return case.standing((pid, pid)).kind is Wait.COLLECTIVE


def _rendezvous(_case: Case, _key: ThreadKey) -> Need | None:
    return Need((Outside("ranks that did not come"),), words="the other ranks to come")


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


def _object_words(case: Case, key: ThreadKey) -> str:
    return case.standing(key).words


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
