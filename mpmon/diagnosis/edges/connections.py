"""Connections: from a socket's other end to the threads that could act there.

The kernel names the socket at the other end and the processes that have it open, but not the thread that serves it,
unless a thread is blocked in it. Otherwise frames decide: a thread below a server's per-connection function serves some
connection; a thread in `accept` serves none yet; the main thread does whatever no dedicated thread does. A thread that
receives over one connection may forward over another: a barrier's "go", a published message. A process that only serves
others (a manager) acts in a per-connection thread or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mpmon.diagnosis.edges.dead import forgotten_child, lost_relatives, misses_sibling
from mpmon.diagnosis.edges.heirs import told, users
from mpmon.diagnosis.event_loops import EventLoops
from mpmon.diagnosis.graph import Absent, NoReleaser, WaitEdge
from mpmon.diagnosis.humanize import age
from mpmon.diagnosis.libraries import SERVES_IN_TURN, SERVES_ONE, TURNS
from mpmon.diagnosis.loops import REQUESTS, user_frame
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.ranks.addresses import is_this_machine
from mpmon.diagnosis.roles import HELPERS
from mpmon.diagnosis.stacks.frames import in_call
from mpmon.diagnosis.stacks.waits import ENDS_OF_PROCESSES, Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import KernelObject, Limits
from mpmon.numerals import numeral


def awaited(job: JobState, key: ThreadKey) -> list[KernelObject]:
    """The objects a thread waits for. If these are only eventfds: instead, the sockets that the process's native threads
    wait for, preferably connections to other processes, else listening ones.
    """
    objects, own = list(job.waits_on(key)), job.held_by.get(key[0], frozenset())
    outer = [item for item in objects if item.peer not in own]
    if not outer or any(item.kind != "eventfd" for item in outer):
        return objects
    watched = [item for other in job.natives(key[0]) for item in job.waits_on(other) if item.kind == "socket"]
    connected = [item for item in watched if item.peer and item.peer not in own]
    return connected or [item for item in watched if takes_all(item)] or objects


def takes_all(item: KernelObject) -> bool:
    """The object accepts connections, receives from any sender (an unconnected socket), or watches files or signals."""
    return (
        item.listens
        or item.kind in ("inotify", "signalfd")
        or (item.path or "").endswith((" to 0.0.0.0:0", " to [::]:0"))
    )


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
    why = (
        f"pid {pid} has {full[0].descriptors} of {full[0].descriptors_limit} files open, so it cannot accept the connection: "
        f"/proc/{pid}/fd, and 'Max open files' of /proc/{pid}/limits"
    )
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
    if item.listener and (busy := _busy_with_others(job, pids, item.listener)):
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
    there = [pid for pid in pids if any(far in _waits_in(job, key) for key in job.threads(pid))]
    for pid in there or [pid for pid in pids if not _listens_to_others(job, pid)] or pids:
        yield from _servers_in(job, pid, item, asks)


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
    if any(listener in _waits_in(job, key) for key in job.threads(pid)):
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


def _servers_in(job: JobState, pid: int, item: KernelObject, asks: ThreadKey) -> list[ThreadKey]:
    main = (pid, pid)
    if job.wait_state(main).kind is Wait.STOPPED:
        return [main]
    threads = [key for key in job.threads(pid) if key != asks]
    if _waits_in(job, main) == (item.peer,) and main != asks:
        # It may have handed what it received before to another thread, which has not done it yet.
        return [
            main,
            *(key for key in threads if key != main and _is_at_work(job, key, item) and waits_inside(job, key)),
        ]
    there = [key for key in threads if item.peer in _waits_in(job, key)]
    busy = [key for key in threads if _is_at_work(job, key, item)]
    others = [] if _writes(job, asks) else [key for key in threads if _serves_another(job, key, item)]
    if serving := [key for key in busy if serves_one(job, key)]:
        named = [key for key in serving if client_of(job, key) == asks[0]] or serving
        # Who waits for the next request has none to answer; another thread may send something all the same.
        beside = [key for key in busy if key not in serving]
        return [*named, *beside, *others] if set(named) <= set(there) else named
    if job.role(pid).kind in HELPERS:
        return there
    if there:
        # A thread that listens on several connections may have handed the work to another thread.
        return list(dict.fromkeys((*there, *busy, *others)))
    if by_natives := _by_natives(job, threads, item):
        return by_natives
    unnamed = _unnamed(job, threads, busy, main)
    accepting = set(unnamed) <= {main} and any(_accepts(job, key) for key in threads)
    return [*unnamed, *others] if accepting else unnamed


def waits_inside(job: JobState, key: ThreadKey) -> bool:
    """The thread stands still, and not because it waits for something from outside its process: whatever it did is not done."""
    return job.motion(key) is Motion.NOT_SCHEDULED and job.wait_state(key).kind not in _FROM_OUTSIDE


_FROM_OUTSIDE = frozenset({Wait.PIPE_READ, Wait.QUEUE_GET, Wait.SOCKET, Wait.POLL, Wait.EVENT_LOOP})


def _unnamed(job: JobState, threads: list[ThreadKey], busy: list[ThreadKey], main: ThreadKey) -> list[ThreadKey]:
    """The threads that may serve if none is identified: those of a background server, else the main thread, else any working
    thread.
    """
    # A thread in a collective serves no connection.
    in_background = job.wait_state(main).kind is Wait.COLLECTIVE or any(
        _accepts(job, key) or job.accepts_in_c(key) for key in threads if key != main
    )
    if in_background and (others := [key for key in busy if key != main]):
        return others
    if main in busy or not busy:
        return [main] if main in threads else []
    return busy


def _is_at_work(job: JobState, key: ThreadKey, item: KernelObject) -> bool:
    serves = job.wait_state(key).idle or _accepts(job, key) or job.serves_in_c(key)
    return not serves and not _serves_another(job, key, item)


def serves_one(job: JobState, key: ThreadKey) -> bool:
    """The thread serves one connection, by its frames."""
    return in_call(job.stacks.get(key), SERVES_ONE)


def _busy_with_others(job: JobState, pids: list[int], listener: str) -> list[ThreadKey]:
    """The threads that would accept the next connection but are still busy with the previous one; empty if a thread is
    already waiting to accept.

    The child of a forking server shows the same frames, but there the server itself waits to accept.
    """
    threads = [key for pid in pids for key in job.threads(pid)]
    if any(listener in _waits_in(job, key) for key in threads):
        return []
    one_by_one = [key for key in threads if serves_one(job, key) and _serves_in_turn(job, key)]
    return one_by_one or [key for key in threads if _keeps_loop(job, key)]


def _keeps_loop(job: JobState, key: ThreadKey) -> bool:
    """The thread is in a callback of its event loop, which accepts nothing until the callback returns."""
    return in_call(job.stacks.get(key), TURNS) and job.wait_state(key).kind is not Wait.EVENT_LOOP


def _serves_in_turn(job: JobState, key: ThreadKey) -> bool:
    return in_call(job.stacks.get(key), SERVES_IN_TURN)


def _by_natives(job: JobState, threads: list[ThreadKey], item: KernelObject) -> list[ThreadKey]:
    """The thread that waits at the other end by way of a library's native threads, if there is only one, and in the user's
    code: the library's own one works for all connections.
    """
    found = [key for key in threads if any(row.id == item.peer for row in awaited(job, key))]
    found = [key for key in found if not job.serves_library(key)]
    return found if len(found) == 1 else []


def _waits_in(job: JobState, key: ThreadKey) -> tuple[str, ...]:
    row = job.blocked.get(key)
    return row.waits_on if row else ()


def _writes(job: JobState, key: ThreadKey) -> bool:
    row = job.blocked.get(key)
    return row is not None and row.writes


def _accepts(job: JobState, key: ThreadKey) -> bool:
    """The thread waits for new connections, and perhaps for data on existing ones."""
    return any(item.listens for item in job.waits_on(key))


def _serves_another(job: JobState, key: ThreadKey, item: KernelObject) -> bool:
    """The thread is blocked in another connection of the same server: one with the same address at the server's end."""
    near = (item.path or "").partition(" to ")[2]
    rows = list(job.waits_on(key))
    return bool(near) and any(row.id != item.peer and (row.path or "").startswith(f"tcp {near} to ") for row in rows)


def unserved(job: JobState, asks: ThreadKey) -> tuple[ThreadKey, list[ThreadKey]] | None:
    """For a thread that waits for an answer over a connection that no thread of the server serves: the server's accepting
    thread, and the threads that serve its other connections.
    """
    if _writes(job, asks):
        return None
    for item in job.waits_on(asks):
        pids = {handle.pid for handle in job.holders.get(item.peer or "", ())} - {asks[0]}
        threads = [key for pid in sorted(pids) for key in job.threads(pid)]
        accepting = [key for key in threads if _accepts(job, key)]
        others = [key for key in threads if _serves_another(job, key, item)]
        if accepting and others and not any(_may_serve(job, key, item) for key in threads):
            return accepting[0], others
    return None


def _may_serve(job: JobState, key: ThreadKey, item: KernelObject) -> bool:
    """The thread waits on this connection, or is at work with something other than waiting for an end."""
    waits_for_end = job.wait_state(key).kind in ENDS_OF_PROCESSES
    return item.peer in _waits_in(job, key) or (_is_at_work(job, key, item) and not waits_for_end)


def client_of(job: JobState, key: ThreadKey) -> int | None:
    """The client that a manager's thread serves: the thread is named after its `Process` (managers.py,
    `accept_connection`).
    """
    name = job.thread_name(key).partition("|")[0]
    if name == "MainProcess":
        return job.processes[key[0]].ppid
    named = [row.child for row in job.snapshot.remembered if row.name == name and job.is_alive(row.child)]
    return named[0] if len(named) == 1 else None


def clients(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """A manager's object that blocks the call of one client waits for other clients to act on it.

    For each other client, the manager has a thread that waits for the next request. A process that has the object but has
    not used it yet has no such thread, so unconnected processes of the manager's family count as clients too.
    """
    words = job.wait_state(key).words
    others = [other for other in job.threads(key[0]) if other != key]
    items = [item for other in others if job.wait_state(other).idle for item in job.waits_on(other) if item.peer]
    named = {other: client_of(job, other) for other in others}
    busy = [other for other in others if not job.wait_state(other).idle and named[other] is None]
    asking = [client for item in items for client in servers(job, item, key) if client[0] != key[0]]
    asking += [(pid, pid) for pid in named.values() if pid is not None and pid != client_of(job, key)]
    connected = _connected(job, key[0])
    strangers = [(pid, pid) for pid in _family(job, key[0]) if pid not in connected and pid != client_of(job, key)]
    targets = tuple(dict.fromkeys((*asking, *busy, *strangers)))
    if edge := _lost_lock(job, key, targets):
        return edge
    if not targets:
        # An exited process may still hold a lock of the manager, or owe an item.
        asks = client_of(job, key)
        lonely = NoReleaser("the manager has no other client", (key[0] if asks is None else asks,))
        return WaitEdge(tuple(lost_relatives(job, key[0], certain=True)) or (lonely,), words=words)
    pids = ", ".join(str(pid) for pid in dict.fromkeys(pid for pid, _ in asking))
    evidence = f"other clients of the manager (pid {key[0]}): pid {pids}" if pids else ""
    return WaitEdge(targets, words=words, evidence=evidence)


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
    gone = tuple(row.pid for row in lost_relatives(job, asks, certain=True) if row.status)
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
    parent = job.processes[manager].ppid
    found = [parent] if parent in job.processes else []
    for pid in found:
        found += [child for child in job.children.get(pid, ()) if child not in found]
    living = [pid for pid in found if job.may_act(pid)]
    return [pid for pid in living if pid not in job.foreign]


def connection_words(job: JobState, item: KernelObject, *, writes: bool) -> str:
    """The process at the other end, and for how long nothing was transferred."""
    if item.kind != "socket" or item.listens or item.path is None:
        return ""
    pids = ", ".join(str(pid) for pid in dict.fromkeys(row.pid for row in job.holders.get(item.peer or "", ())))
    path = "a unix socket" if item.path == "unix" else item.path
    words = f"{path}: the other end belongs to pid {pids}" if pids else path
    words = "; ".join(filter(None, (words, told(job, item, writes=writes) if pids else "")))
    if item.listener:
        words = f"{path}: not accepted yet, it is in the accept queue of {item.listener}"
    last = item.sent_at if writes else item.received_at
    if last is None:
        return words if pids or item.listener else ""
    return f"{words}; nothing {'sent' if writes else 'received'} for {age(job.now - last)}"
