"""Connections: from a socket's other end to the threads that could act there.

The kernel names the socket at the other end and the processes that have it open, but not the thread that serves it,
unless a thread is blocked in it. Otherwise frames decide: a thread below a server's per-connection function serves some
connection; a thread in `accept` serves none yet; the main thread does whatever no dedicated thread does. A thread that
receives over one connection may forward over another: a barrier's "go", a published message. A process that only serves
others (a manager) acts in a per-connection thread or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mpmon.diagnosis.edges.heirs import told, users
from mpmon.diagnosis.edges.serving import busy_with_others, servers_in, waits_in
from mpmon.diagnosis.event_loops import EventLoops
from mpmon.diagnosis.graph import Absent, NoReleaser
from mpmon.diagnosis.humanize import age
from mpmon.diagnosis.loops import REQUESTS, user_frame
from mpmon.diagnosis.ranks.addresses import is_this_machine
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import KernelObject, Limits
from mpmon.numerals import numeral


def is_private(job: JobState, listener: KernelObject) -> bool:
    """Only the job knows this server: its address is local and its port one that the kernel chose, a thread of the job waits
    for an answer from it, and no thread does that serves anybody else.
    """
    near = (listener.path or "").rpartition(" ")[2]
    address, _, port = near.rpartition(":")
    if not is_this_machine(address) or (numeral(port) or 0) < FIRST_CHOSEN_PORT:
        return False
    served = [item for item in job.objects.values() if (item.path or "").startswith(f"tcp {near} to ")]
    asked = [job.holders.get(item.id, ()) for item in _asked(job, listener)]
    return bool(asked) and all((*asked, *(job.holders.get(item.peer or "", ()) for item in served)))


def _asked(job: JobState, listener: KernelObject) -> list[KernelObject]:
    """The connections to a server over which threads of the job wait for an answer."""
    near = (listener.path or "").rpartition(" ")[2]
    return [item for item in job.objects.values() if (item.path or "").endswith(f" to {near}")]


def askers(job: JobState, listener: KernelObject) -> list[ThreadKey]:
    """The threads of the job that wait for an answer from a server."""
    over = {item.id for item in _asked(job, listener)}
    return [(row.pid, row.tid) for row in job.snapshot.blocked if not over.isdisjoint(row.waits_on)]


def accepts_nobody(job: JobState, pid: int) -> bool:
    """A thread of the job waits to be accepted by a socket that only this process has, and none of its threads accepts."""
    return any(
        {row.pid for row in job.holders.get(name, ()) if row.reads} == {pid}
        and not any(name in waits_in(job, key) for key in job.threads(pid))
        for name in job.of(_Pending).listeners
    )


class _Pending:
    """The listening sockets by which a thread of the job waits to be accepted."""

    def __init__(self, job: JobState) -> None:
        rows = (job.objects.get(name) for name in job.waiters)
        self.listeners = {row.listener for row in rows if row and row.listener and not row.peer}


FIRST_CHOSEN_PORT = 32768
"""Linux gives a socket that asks for no particular port one from here on: net.ipv4.ip_local_port_range of ip(7)."""


def at_limit(job: JobState, items: Iterable[KernelObject]) -> NoReleaser | None:
    """A server that has not accepted one of these connections, and has as many files open as it may: accept(2) then fails. Unless
    it works on requests, after which it closes their connections, or another process could accept as well.
    """
    waiting = (item.listener for item in items if item.listener and not item.peer)
    pids = {row.pid for name in waiting for row in job.holders.get(name, ()) if row.reads}
    full = [row for row in job.snapshot.limits if row.pid in pids and _is_used_up(row)]
    if len(full) != 1 or len(pids) != 1 or _works_on_requests(job, full[0].pid):
        return None
    pid = full[0].pid
    why = f"pid {pid} has {full[0].descriptors} of {full[0].descriptors_limit} files open, so it cannot accept the connection"
    return NoReleaser(why, (pid,), Absent.NO_DESCRIPTORS)


def _is_used_up(row: Limits) -> bool:
    return (
        row.descriptors is not None and row.descriptors_limit is not None and row.descriptors >= row.descriptors_limit
    )


def _works_on_requests(job: JobState, pid: int) -> bool:
    """Threads besides the main one, or tasks of its event loop that wait for something else than requests, in the user's code."""
    threads = [key for key in job.threads(pid) if key != (pid, pid) and not job.wait_state(key).idle]
    tasks = job.of(EventLoops).tasks.get((pid, pid), ())
    return bool(threads) or any(user_frame(row) and row.waits != REQUESTS for row in tasks)


def servers(job: JobState, item: KernelObject, asks: ThreadKey) -> Iterator[ThreadKey]:
    """The threads that could act at the other end of a connection, or accept it."""
    far = item.peer or item.listener or _full_listener(job, asks) or ""
    ends = [row for row in job.holders.get(far, ()) if job.is_alive(row.pid)]
    others = users(job, (row for row in ends if row.pid != asks[0]), item) if item.peer else ends
    pids = list(dict.fromkeys(row.pid for row in others or ends))
    if not item.peer:
        accept = _have_accepted(job, item)
        pids = [pid for pid in pids if pid in accept or not _has_only_inherited(job, pid, far, accept)] or pids
    if item.listener and (busy := busy_with_others(job, pids, item.listener)):
        yield from busy
        return
    if not far:
        yield from _perhaps_on_other_machines(job, item, asks)
        return
    # A process that forgot to close the other end of its own socket pair does not answer itself. If several processes
    # have that end, prefer one with a thread waiting in it.
    pids = [pid for pid in pids if pid != asks[0]] or pids
    if pids == [asks[0]] and not job.others_at_work(asks) and not job.natives_at_work(asks[0]):
        yield asks
        return
    there = [pid for pid in pids if any(far in waits_in(job, key) for key in job.threads(pid))]
    for pid in there or [pid for pid in pids if not _listens_to_others(job, pid)] or pids:
        yield from servers_in(job, pid, item, asks)
    own = {row.fd for row in ends if row.pid == asks[0] and row.fd is not None}
    if own and {row.pid for row in job.holders.get(item.id, ())}.issuperset(pids):
        # They have both ends, so they may just have inherited them, while a thread here has the other one in a variable.
        yield from (other for other in job.others_at_work(asks) if _has_in_a_variable(job, other, own))


def _has_in_a_variable(job: JobState, key: ThreadKey, descriptors: set[int]) -> bool:
    stack = job.stacks.get(key)
    return stack is not None and any(
        not descriptors.isdisjoint((*frame.ends, *(frame.own_ends or ()))) for frame in stack.frames
    )


def _full_listener(job: JobState, asks: ThreadKey) -> str | None:
    """For a thread in connect(2) of a unix socket: the listening socket whose accept queue is full, if only one of the job has
    pending connections. Such a connect waits until one of these is accepted (net/unix/af_unix.c, `unix_stream_connect`).
    """
    blocked = job.blocked.get(asks)
    pending = {item.listener for item in job.objects.values() if item.listener and item.path == "unix"}
    return next(iter(pending)) if blocked and blocked.syscall == "connect" and len(pending) == 1 else None


def _have_accepted(job: JobState, item: KernelObject) -> set[int]:
    """Who has other connections to the server that this one is to be accepted by."""
    far = (item.path or "").partition(" to ")[2]
    return {row.pid for end in job.of(_Accepted).by_address.get(far, ()) for row in job.holders.get(end, ())}


class _Accepted:
    """The ends of the job's connections, by the address of each: those of one server's address were accepted by it."""

    def __init__(self, job: JobState) -> None:
        self.by_address: dict[str, list[str]] = {}
        for row in job.objects.values():
            near, _, far = (row.path or "").partition(" to ")
            if row.peer and far:
                self.by_address.setdefault(near.rpartition(" ")[2], []).append(row.id)
                self.by_address.setdefault(far, []).append(row.peer)


def _has_only_inherited(job: JobState, pid: int, listener: str, accept: set[int]) -> bool:
    """None of the process's threads accepts, and it waits to be accepted by this listening socket itself, or has opened it for
    its children, which accept, as gunicorn's arbiter does.
    """
    if any(listener in waits_in(job, key) for key in job.threads(pid)):
        return False
    return _is_pending(job, (pid, pid), listener) or not accept.isdisjoint(job.children.get(pid, ()))


def _is_pending(job: JobState, key: ThreadKey, listener: str) -> bool:
    """The thread waits to be accepted by this listening socket, or to get into its accept queue."""
    items = [item for item in job.waits_on(key) if item.kind == "socket" and not item.peer]
    return any(item.listener == listener for item in items) or (bool(items) and _full_listener(job, key) == listener)


def _listens_to_others(job: JobState, pid: int) -> bool:
    """The process's main thread is in an event loop, which always watches all its connections, and this one has connections
    besides its wake-up socket.
    """
    main = (pid, pid)
    watched = [item for item in job.waits_on(main) if item.kind == "socket"]
    return job.wait_state(main).kind is Wait.EVENT_LOOP and len(watched) > 1


def _perhaps_on_other_machines(job: JobState, item: KernelObject, asks: ThreadKey) -> Iterator[ThreadKey]:
    """In a job on several machines: processes on other machines that have a socket with unknown addresses. The ends of a
    connection are matched by address, and addresses are read only for sockets that a thread waits on.
    """
    here = job.processes[asks[0]].host
    far = (item.path or "").partition(" to ")[2]
    if item.listens or not far or is_this_machine(far):
        return
    for process in job.snapshot.processes:
        names = job.held_by.get(process.pid, frozenset()) if process.host != here else ()
        unknown = any(name.startswith("socket:") and name not in job.objects for name in names)
        if unknown and job.may_act(process.pid):
            yield process.pid, process.pid


def connection_words(job: JobState, item: KernelObject, *, writes: bool) -> str:
    """The process at the other end, and for how long nothing was transferred."""
    if item.kind != "socket" or item.listens or item.path is None:
        return ""
    pids = ", ".join(str(pid) for pid in dict.fromkeys(row.pid for row in job.holders.get(item.peer or "", ())))
    path = "a unix socket" if item.path == "unix" else item.path
    words = f"{path}: the other end belongs to pid {pids}" if pids else path
    words = "; ".join(filter(None, (words, told(job, item, writes=writes) if pids else "")))
    if item.listener:
        words = f"{path}: not accepted yet; it is in the accept queue of {item.listener}"
    last = item.sent_at if writes else item.received_at
    if last is None:
        return words if pids or item.listener else ""
    return f"{words}; nothing {'sent' if writes else 'received'} for {age(job.now - last)}"
