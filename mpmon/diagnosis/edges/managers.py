"""The clients of a multiprocessing manager, one of which has to act for a thread that serves another."""

from __future__ import annotations

from collections import Counter

from mpmon.diagnosis.edges.connections import servers
from mpmon.diagnosis.edges.dead import crashed, lost_relatives
from mpmon.diagnosis.edges.numbered import forgotten_child, misses_sibling
from mpmon.diagnosis.edges.serving import client_of
from mpmon.diagnosis.graph import Absent, NoReleaser, WaitEdge
from mpmon.diagnosis.stacks.waits import ENDS_OF_PROCESSES
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState


def clients(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """A manager's object that blocks the call of one client waits for other clients to act on it.

    For each other client, the manager has a thread that waits for the next request. A process that has the object but has
    not used it yet has no such thread, so unconnected processes of the manager's family count as clients too.
    """
    words = job.wait_state(key).words
    others = [other for other in job.threads(key[0]) if other != key]
    items = [item for other in others if job.wait_state(other).idle for item in job.waits_on(other) if item.peer]
    named = {other: client_of(job, other) for other in others}
    own, several = client_of(job, key), _by_several_threads(job, key[0])
    busy = [other for other in others if not job.wait_state(other).idle and named[other] is None]
    asking = [client for item in items for client in servers(job, item, key) if client[0] != key[0]]
    asking += [(pid, pid) for pid in named.values() if pid is not None and pid != own]
    connected = _connected(job, key[0])
    strangers = [(pid, pid) for pid in _family(job, key[0]) if pid not in connected and pid != own]
    beside = [other for pid in several for other in _own_threads(job, pid, key[0])]
    targets = tuple(dict.fromkeys((*asking, *busy, *strangers, *beside)))
    lock = job.wanted_lock(key)
    # Who waits for the same lock does not have it; another thread of the same process may.
    rivals = {pid for other, pid in named.items() if lock and job.wanted_lock(other) == lock} - {None, *several}
    if rivals:
        # A lock is seldom held by who waits for the end of another process.
        others = [target for target in targets if target[0] not in rivals]
        working = [target for target in others if job.wait_state(target).kind not in ENDS_OF_PROCESSES]
        targets = tuple(working or others) or targets
    if edge := _lost_lock(job, key, targets):
        return edge
    if not targets:
        # An exited process may still hold a lock of the manager, or owe an item.
        lonely = NoReleaser("the manager has no other client", (key[0] if own is None else own,))
        return WaitEdge(tuple(lost_relatives(job, key[0], certain=True)) or (lonely,), words=words)
    pids = ", ".join(str(pid) for pid in dict.fromkeys(pid for pid, _ in asking))
    evidence = f"other clients of the manager (pid {key[0]}): pid {pids}" if pids else ""
    return WaitEdge(targets, words=words, evidence=evidence)


def _by_several_threads(job: JobState, manager: int) -> list[int]:
    """Clients with more than one connection to the manager: a proxy has one for each thread that uses it (managers.py,
    `BaseProxy._connect`).
    """
    threads = [other for other in job.threads(manager) if job.wait_state(other).idle]
    peers = {item.peer for other in threads for item in job.waits_on(other) if item.peer}
    ends = Counter(pid for peer in peers for pid in {row.pid for row in job.holders.get(peer, ())})
    ends.update(
        pid for other in job.threads(manager) if (pid := client_of(job, other)) is not None and other not in threads
    )
    return [pid for pid, count in ends.items() if count > 1 and pid != manager]


def _own_threads(job: JobState, pid: int, manager: int) -> list[ThreadKey]:
    """Further threads of a client that are at work, and do not themselves wait for the manager."""
    held = job.held_by.get(manager, frozenset())
    others = (other for other in job.working_threads(pid) if other != (pid, pid))
    return [other for other in others if not any(item.peer in held for item in job.waits_on(other))]


def _lost_lock(job: JobState, key: ThreadKey, targets: tuple[ThreadKey, ...]) -> WaitEdge | None:
    """For a manager's lock that every client waits for, apart from clients that wait for an end: the client that exited
    while holding it; `None` if no client is known to have exited.
    """
    asks, lock = client_of(job, key), job.wanted_lock(key)
    waiting = {client_of(job, other) for other in job.threads(key[0]) if job.wanted_lock(other) == lock}
    if (
        asks is None
        or lock is None
        or not all(pid in waiting or job.wait_state((pid, tid)).kind in ENDS_OF_PROCESSES for pid, tid in targets)
    ):
        return None
    gone = tuple(gone.pid for gone in crashed(job, asks))
    if not gone:
        if not misses_sibling(job, asks):
            return None
        forgotten = forgotten_child(job, asks)
        gone = () if forgotten is None else (forgotten,)
    why = "no client of the manager that is alive holds this lock: all wait for it, or for others to end"
    return WaitEdge((NoReleaser(why, gone, Absent.HOLDER_ENDED),), words="a lock of the manager", evidence=why)


def _connected(job: JobState, manager: int) -> set[int]:
    """Processes at the other ends of the manager's sockets."""
    held = job.held_by.get(manager, frozenset())
    asked = {item.peer for other in job.threads(manager) for item in job.waits_on(other) if item.peer}
    waiting = {item.id for item in job.objects.values() if item.kind == "socket" and item.peer in held}
    return {handle.pid for name in asked | waiting for handle in job.holders.get(name, ())}


def _family(job: JobState, manager: int) -> list[int]:
    """The manager's parent and all its Python descendants: the processes that may have been given the object."""
    parent = job.starter(manager)
    found = [parent] if parent in job.processes else []
    for pid in found:
        found += [child for child in job.clients.get(pid, ()) if child not in found]
    living = [pid for pid in found if job.may_act(pid)]
    return [pid for pid in living if pid not in job.foreign]
