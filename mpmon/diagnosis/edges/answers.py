"""Who may yet change what a loop polls for: another loop that sleeps for a while, and then acts."""

from __future__ import annotations

from collections import defaultdict

from mpmon.diagnosis.edges.leaves import may_act_by_clock, turns
from mpmon.diagnosis.event_loops import EventLoops
from mpmon.diagnosis.progress.state_change import acts_now_and_then
from mpmon.diagnosis.stacks.frames import is_user
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState


def may_be_answered(job: JobState, key: ThreadKey) -> bool:
    """Another loop of the job, which goes on, changes something of the name of what this one asks for; or another thread of the
    process, which does more than to poll and keep books, was seen to change something, or waits for a time to come.
    """
    asked, loops = _asked(job, key), job.of(_Loops)
    beside = [other for other in job.threads(key[0]) if other != key and other in job.stacks and turns(job, other)]
    if asked is None and any(job.stacks[other].books for other in beside):
        return True
    changed = any(other != key for name in asked or () for other in loops.changing(name))
    return changed or any(_acts(job, other) for other in beside)


def _asked(job: JobState, key: ThreadKey) -> tuple[str, ...] | None:
    """What the thread, or the tasks in its event loop, poll for; `None` if that is not known."""
    stack, tasks = job.stacks.get(key), job.of(EventLoops).resting(key)
    of_tasks = tuple(name for row in tasks for name in row.polls_for or ())
    return of_tasks or (stack.polls_for if stack else None)


class _Loops:
    """The loops that go on, by the names of what they change."""

    def __init__(self, job: JobState) -> None:
        self._of: dict[str, list[ThreadKey]] = defaultdict(list)
        for key, stack in job.stacks.items():
            if stack.books and turns(job, key):
                for name in stack.books:
                    self._of[name].append(key)

    def changing(self, name: str) -> list[ThreadKey]:
        """The threads whose loops change something of that name; at most two, as one of them may be who asks."""
        return self._of.get(name, [])[:2]


def _acts(job: JobState, key: ThreadKey) -> bool:
    stack, past = job.stacks[key], job.thread_history(key)
    if stack.polls_for is not None or stack.keeps_books or past is None:
        return False
    if not any(is_user(frame.file) for frame in stack.frames):
        return False
    return may_act_by_clock(job, key) or job.memory.same(("acts", key), acts_now_and_then, past.samples)
