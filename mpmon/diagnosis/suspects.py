"""Where a thread stands, as one line for people, and the thread or the ended process as a suspect."""

from __future__ import annotations

from msgspec.structs import replace

from mpmon.diagnosis.event_loops import EventLoops
from mpmon.diagnosis.findings import Place, Suspect
from mpmon.diagnosis.loops import first, user_frame
from mpmon.diagnosis.stacks.frames import innermost_user, is_user, place
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import Stack


def stands_at(job: JobState, key: ThreadKey) -> Place | None:
    """The line of a thread that a person should look at; of one that runs only a library's code, that of the thread which waits
    for it to end or for the result of its task.
    """
    loops = job.of(EventLoops)
    stack, task = job.stacks.get(key), first(loops.stuck(key) or loops.waiting(key) or loops.resting(key))
    if task and (frame := user_frame(task)):
        return place(frame)
    found = job.memory.same(("place", key), _user_line, stack) if stack else None
    caller = None if found is None or is_user(found.file) else _caller(job, key)
    return stands_at(job, caller) if caller else found


def _caller(job: JobState, key: ThreadKey) -> ThreadKey | None:
    """The thread of the same process that waits for this one, in the user's code."""
    waiting = (other for other in job.threads(key[0]) if other != key and job.awaited(other) == key)
    return next((other for other in waiting if any(is_user(frame.file) for frame in job.stacks[other].frames)), None)


def suspect(job: JobState, who: ThreadKey | int) -> Suspect:
    """A thread as a suspect, or the process of this pid, which has ended."""
    pid = who if isinstance(who, int) else who[0]
    role, process = job.role(pid), job.processes.get(pid)
    found = Suspect(pid=pid, dead=process is None or process.ended, role=job.title(pid), rank=role.rank)
    if isinstance(who, int):
        return replace(found, dead=True)
    return replace(found, thread=job.thread_name(who), tid=who[1], frame=stands_at(job, who))


def _user_line(stack: Stack) -> Place | None:
    frame = innermost_user(stack)
    return place(frame) if frame else None
