"""Event loops whose tasks wait for each other, for nobody, for a child, or for data from other processes of the job: see
`mpmon.diagnosis.loops`.
"""

from __future__ import annotations

from mpmon.diagnosis.edges.messages import has_mail, other_ends
from mpmon.diagnosis.edges.servants import executor_threads
from mpmon.diagnosis.event_loops import EventLoops
from mpmon.diagnosis.graph import Absent, NoReleaser, WaitEdge
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.loops import BODY, CONNECTIONS, EXECUTOR, READY, ROOM, STREAM, does, place_of
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState

MOST_TOLD = 4
"""Tasks whose waits the evidence lists."""


def stuck_loop(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """The targets of a loop with only stuck tasks: itself, or other processes; `None` for any other loop."""
    if edge := _executor(job, key):
        return edge
    tasks = job.of(EventLoops).stuck(key)
    if not tasks:
        return _held_up(job, key)
    told = [f"{row.name} {does(row, tasks)}{place_of(row)}" for row in tasks[:MOST_TOLD]]
    more = f" and {len(tasks) - MOST_TOLD} more" if len(tasks) > MOST_TOLD else ""
    evidence = f"tasks of the event loop of pid {key[0]}: {'; '.join(told)}{more}"
    if all(row.waits == READY for row in tasks):
        names = several([row.name or "a task" for row in tasks[:MOST_TOLD]])
        why = f"nothing woke the loop when {names} became ready"
        return WaitEdge(
            (NoReleaser(why, blame=(key[0],), reason=Absent.NOT_WOKEN),),
            words="its event loop to continue",
            evidence=evidence,
        )
    if children := tuple(dict.fromkeys((row.child, row.child) for row in tasks if row.child is not None)):
        # A child may take any time to end; but one that waits for room in a pipe nobody reads never ends.
        if any(job.wait_state(child).kind is not Wait.PIPE_WRITE for child in children):
            return None
        names = job.names(children)
        return WaitEdge(children, words=f"the end of {names}", evidence=evidence)
    if kinds := CONNECTIONS.intersection(row.waits for row in tasks if row.waits):
        return _other_side(job, key, evidence, writes=STREAM not in kinds)
    return WaitEdge(
        (key,), every=True, polled=True, words="something only its own tasks could provide", evidence=evidence
    )


def _held_up(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """A server's loop whose requests all wait for their own clients."""
    tasks = job.of(EventLoops).held_up(key)
    kinds = {row.waits for row in tasks}
    ways = [writes for writes, kind in ((False, BODY), (True, ROOM)) if kind in kinds]
    ends = dict.fromkeys(
        end
        for item in job.of(EventLoops).clients(key)
        for way in ways
        for end in other_ends(job, key, item, writes=way)
    )
    if not ends:
        return None
    names = several(list(dict.fromkeys(job.name(end[0]) for end in ends if isinstance(end, tuple))))
    told = [f"{row.name} {does(row, tasks)}{place_of(row)}" for row in tasks[:MOST_TOLD]]
    words = f"{names} to read what it sends" if kinds == {ROOM} else f"the rest of a request of {names}"
    return WaitEdge(tuple(ends), words=words, evidence=f"tasks of the event loop of pid {key[0]}: {'; '.join(told)}")


def _executor(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """Once its main task is done, `asyncio.run` waits for the threads of the loop's executor, whatever they do."""
    if not any(row.waits == EXECUTOR for row in job.of(EventLoops).tasks.get(key, ())):
        return None
    threads = [other for other in executor_threads(job, key) if not job.wait_state(other).idle]
    own = [other for other in threads if job.thread_name(other).startswith(DEFAULT)] or threads
    if not own:
        return None
    names = several([job.thread_name(other) for other in own])
    return WaitEdge(tuple(own), every=True, words=f"the end of {names}, thread{'s' * (len(own) > 1)} of its executor")


DEFAULT = "asyncio_"
"""Begins the names of the threads of a loop's default executor (asyncio/base_events.py)."""


def _other_side(job: JobState, key: ThreadKey, evidence: str, *, writes: bool) -> WaitEdge | None:
    """Threads that could send something over a connection of the loop, or read what it `writes`: until then it does not read."""
    if not writes and has_mail(job, key):
        return None
    ends = dict.fromkeys(
        end for item in job.of(EventLoops).partners(key) for end in other_ends(job, key, item, writes=writes)
    )
    if not ends:
        return None
    names = several(list(dict.fromkeys(job.name(end[0]) for end in ends if isinstance(end, tuple))))
    words = f"{names} to read what it sends" if writes else f"an answer from {names}"
    return WaitEdge(tuple(ends), words=words, evidence=evidence)
