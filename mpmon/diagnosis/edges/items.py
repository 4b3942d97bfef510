"""Items of a queue that are in the memory of the process that put them, and who put any."""

from __future__ import annotations

from collections.abc import Iterable

from mpmon.diagnosis.graph import Absent, NoReleaser
from mpmon.diagnosis.ipc.queues import is_feeder
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import KernelObject, QueueState


def keeps_items(job: JobState, key: ThreadKey, objects: Iterable[KernelObject]) -> NoReleaser | None:
    """Items of the queue are still in the memory of the process that put them, which has no feeder thread to send them: a
    library such as gevent has replaced threads by something that runs only while the program waits in the library.
    """
    for queue in queues(job, objects):
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
        if job.has_frames(alive[0]) and not any(is_feeder(stack) for stack in stacks):
            count = f"{queue.items} item{'s' * (queue.items > 1)}"
            why = f"{count} that {job.name(alive[0])} put are still in its memory, and it has no thread that would send them"
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
    rows = queues(job, objects)
    return frozenset(pid for queue in rows for pid in queue.putters) if rows else None


def queues(job: JobState, objects: Iterable[KernelObject]) -> list[QueueState]:
    """The queues that some of these are the pipes of."""
    return [queue for item in objects if (queue := job.queues.get(item.id))]


def queue_of(job: JobState, key: ThreadKey) -> QueueState | None:
    """The queue for whose items, or for the turn to take one, a thread waits."""
    names = {item.id for item in job.waits_on(key)}
    return next((row for row in job.queues.values() if row.object in names or row.read_lock in names), None)
