"""Which threads of a server's process serve the client of a connection."""

from __future__ import annotations

from mpmon.diagnosis.libraries import SERVES_ONE, TURNS
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.roles import HELPERS
from mpmon.diagnosis.stacks.frames import in_call
from mpmon.diagnosis.stacks.waits import COMES_BY_READING, ENDS_OF_PROCESSES, Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import KernelObject


def servers_in(job: JobState, pid: int, item: KernelObject, asks: ThreadKey) -> list[ThreadKey]:
    """The threads of a process that serve, or will serve, the connection that a thread asks through."""
    main = (pid, pid)
    if job.wait_state(main).kind is Wait.STOPPED:
        return [main]
    threads = [key for key in job.threads(pid) if key != asks and not job.keeps_books(key)]
    if waits_in(job, main) == (item.peer,) and main != asks:
        # It may have handed what it received before to another thread, which has not done it yet.
        return [
            main,
            *(key for key in threads if key != main and _is_at_work(job, key, item) and waits_inside(job, key)),
        ]
    there = [key for key in threads if item.peer in waits_in(job, key)]
    busy = [key for key in threads if _is_at_work(job, key, item)]
    others = [] if _writes(job, asks) else [key for key in threads if _serves_another(job, key, item)]
    if serving := [key for key in busy if serves_one(job, key)]:
        named = [key for key in serving if client_of(job, key) == asks[0]] or serving
        # Who waits for the next request has none to answer; another thread may send something all the same.
        beside = [key for key in busy if key not in serving]
        return [*named, *beside, *others] if set(named) <= set(there) else named
    if job.role(pid).kind in HELPERS:
        # Where its stacks could not be read, which of its threads serves is unknown, not that none does.
        return there or ([] if job.has_frames(pid) else [main])
    if there:
        # A thread that listens on several connections may have handed the work to another thread.
        return list(dict.fromkeys((*there, *busy, *others)))
    if by_natives := _by_natives(job, threads, item):
        return by_natives
    unnamed = _unnamed(job, threads, busy, main)
    accepting = set(unnamed) <= {main} and any(accepts(job, key) for key in threads)
    return [*unnamed, *others] if accepting else unnamed


def waits_inside(job: JobState, key: ThreadKey) -> bool:
    """The thread stands still, and not because it waits for something from outside its process: whatever it did is not done."""
    return job.motion(key) is Motion.NOT_SCHEDULED and job.wait_state(key).kind not in _FROM_OUTSIDE


_FROM_OUTSIDE = COMES_BY_READING | {Wait.SOCKET, Wait.POLL, Wait.EVENT_LOOP}


def _unnamed(job: JobState, threads: list[ThreadKey], busy: list[ThreadKey], main: ThreadKey) -> list[ThreadKey]:
    """The threads that may serve if none is identified: those of a background server, else the main thread, else any working
    thread.
    """
    # A thread in a collective serves no connection.
    in_background = job.wait_state(main).kind is Wait.COLLECTIVE or any(
        accepts(job, key) or job.accepts_in_c(key) for key in threads if key != main
    )
    if in_background and (others := [key for key in busy if key != main]):
        return others
    if main in busy or not busy:
        return [main] if main in threads else []
    return busy


def _is_at_work(job: JobState, key: ThreadKey, item: KernelObject) -> bool:
    serves = job.wait_state(key).idle or accepts(job, key) or job.serves_in_c(key)
    return not serves and not _serves_another(job, key, item)


def serves_one(job: JobState, key: ThreadKey) -> bool:
    """The thread serves one connection, by its frames."""
    return in_call(job.stacks.get(key), SERVES_ONE)


def busy_with_others(job: JobState, pids: list[int], listener: str) -> list[ThreadKey]:
    """The threads that would accept the next connection but are still busy with the previous one; empty if a thread is
    already waiting to accept.

    The child of a forking server shows the same frames, but there the server itself waits to accept.
    """
    threads = [key for pid in pids for key in job.threads(pid)]
    if any(listener in waits_in(job, key) for key in threads):
        return []
    return [key for key in threads if _keeps_loop(job, key)]


def _keeps_loop(job: JobState, key: ThreadKey) -> bool:
    """The thread is in a callback of its event loop, which accepts nothing until the callback returns."""
    return in_call(job.stacks.get(key), TURNS) and job.wait_state(key).kind is not Wait.EVENT_LOOP


def _by_natives(job: JobState, threads: list[ThreadKey], item: KernelObject) -> list[ThreadKey]:
    """The thread that waits at the other end by way of a library's native threads, if there is only one, and in the user's
    code: the library's own one works for all connections.
    """
    found = [key for key in threads if any(row.id == item.peer for row in awaited(job, key))]
    found = [key for key in found if not job.serves_library(key)]
    return found if len(found) == 1 else []


def waits_in(job: JobState, key: ThreadKey) -> tuple[str, ...]:
    """The ids of the objects that a thread waits on in the kernel."""
    row = job.blocked.get(key)
    return row.waits_on if row else ()


def _writes(job: JobState, key: ThreadKey) -> bool:
    row = job.blocked.get(key)
    return row is not None and row.writes


def accepts(job: JobState, key: ThreadKey) -> bool:
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
        accepting = [key for key in threads if accepts(job, key)]
        others = [key for key in threads if _serves_another(job, key, item)]
        if accepting and others and not any(_may_serve(job, key, item) for key in threads):
            return accepting[0], others
    return None


def _may_serve(job: JobState, key: ThreadKey, item: KernelObject) -> bool:
    """The thread waits on this connection, or is at work with something other than waiting for an end."""
    waits_for_end = job.wait_state(key).kind in ENDS_OF_PROCESSES
    return item.peer in waits_in(job, key) or (_is_at_work(job, key, item) and not waits_for_end)


def client_of(job: JobState, key: ThreadKey) -> int | None:
    """The client that a manager's thread serves: the thread is named after its `Process` (managers.py,
    `accept_connection`).
    """
    name = job.thread_name(key).partition("|")[0]
    if name == "MainProcess":
        return job.starter(key[0])
    named = [row.child for row in job.snapshot.remembered if row.name == name and job.is_alive(row.child)]
    return named[0] if len(named) == 1 else None


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
        or ((item.path or "").startswith("unix ") and not (item.peer or item.listener))
    )
