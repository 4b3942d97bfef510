"""Who may yet change what a loop polls for: another loop that sleeps for a while, and then acts."""

from __future__ import annotations

from mpmon.diagnosis.edges.leaves import may_act_by_clock, turns
from mpmon.diagnosis.progress.state_change import acts_now_and_then
from mpmon.diagnosis.stacks.frames import is_user
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState


def may_be_answered(job: JobState, key: ThreadKey) -> bool:
    """Another loop of the job, which goes on, changes something of the name of what this one asks for; or another thread of the
    process, which does more than to poll and keep books, was seen to change something, or waits for a time to come.
    """
    stack = job.stacks.get(key)
    asked = stack.polls_for if stack else None
    return any(_may_answer(job, key, other, asked) for other in job.stacks if other != key)


def _may_answer(job: JobState, key: ThreadKey, other: ThreadKey, asked: tuple[str, ...] | None) -> bool:
    stack, beside = job.stacks[other], key[0] == other[0]
    if not (beside or stack.books) or not turns(job, other):
        return False
    if asked is not None and not set(asked).isdisjoint(stack.books):
        return True
    if stack.polls_for is not None or stack.keeps_books:
        return beside and asked is None and bool(stack.books)
    past = job.thread_history(other)
    if not beside or past is None or not any(is_user(frame.file) for frame in stack.frames):
        return False
    return may_act_by_clock(job, other) or job.memory.same(("acts", other), acts_now_and_then, past.samples)
