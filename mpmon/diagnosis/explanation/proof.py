"""How sure a finding is, and what keeps it from being proved.

A finding is proved if no other explanation remains: every edge of the argument has a basis that excludes other targets, the
root blockers did not run at all and cannot time out by themselves, and no unreadable fact might contradict it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from mpmon.diagnosis.findings import Certainty
from mpmon.diagnosis.graph import Ending, Status
from mpmon.diagnosis.humanize import several, verb
from mpmon.diagnosis.missing_data import rests_on_facts
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.stacks.frames import is_user
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.stuck.stuck_set import Match, StuckSet

MOST_NAMED = 3
"""Up to this many threads are named in one doubt."""


def judged(stuck: StuckSet, match: Match) -> tuple[Certainty, tuple[str, ...]]:
    """The certainty, and the reasons why the finding is not proved; no reasons if it is."""
    doubts = tuple(_doubts(stuck))
    best = max(Certainty.LIKELY if doubts else Certainty.PROVED, match.certainty, key=lambda row: row.rank)
    if best is not Certainty.PROVED and not doubts:
        return best, ("the cause is inferred from what the threads are doing",)
    return best, doubts


def _doubts(stuck: StuckSet) -> Iterator[str]:
    job, closed = stuck.job, stuck.closed
    if closed.assumed:
        yield f"it is assumed that nothing else can end the wait of {_names(job, closed.assumed)}"
    if moving := [key for key in stuck.at_end if job.motion(key) is not Motion.NOT_SCHEDULED]:
        loops = all(job.motion(key) is Motion.BUSY_LOOP for key in moving)
        yield f"{_names(job, moving)} {_still_runs(len(moving), loops=loops)}"
    if any(stuck.wait_state(key).kind is Wait.STOPPED for key in stuck.at_end) and (others := _at_work(stuck)):
        yield f"{_names(job, others)} still {'make' if len(others) > 1 else 'makes'} progress, and might let it continue"
    timed = stuck.at_end if stuck.ending is Ending.CYCLE else ()
    if timed := [key for key in timed if _may_give_up(job, key)]:
        yield f"the wait of {_names(job, timed)} may end by itself: it has a time limit, or a signal handler may end it"
    if not rests_on_facts(job, {pid for pid, _ in (*closed.members, *stuck.at_end)}):
        yield "some open files or waits of the processes could not be read"


def _still_runs(count: int, *, loops: bool) -> str:
    if loops:
        return f"{'is' if count == 1 else 'are'} running, and may yet finish"
    return f"{verb(count, 'run')} now and then"


def _names(job: JobState, keys: tuple[ThreadKey, ...] | list[ThreadKey]) -> str:
    return several([_name(job, key) for key in keys], most=MOST_NAMED)


def _name(job: JobState, key: ThreadKey) -> str:
    role = f"{job.full_name(key[0])}"
    return role if key[0] == key[1] else f"{job.thread_words(key)} of {role}"


def _at_work(stuck: StuckSet) -> list[ThreadKey]:
    """The first threads of the job that run the user's code and are not stuck: one of them may have sent the signal."""
    job = stuck.job
    own = (key for key, stack in job.stacks.items() if any(is_user(frame.file) for frame in stack.frames))
    live = (key for key in own if job.is_alive(key[0]) and stuck.graph.node(key).status is Status.LIVE)
    return list(islice(live, MOST_NAMED))


def _may_give_up(job: JobState, key: ThreadKey) -> bool:
    """The wait has a time limit, or a SIGALRM handler may end it, so the cycle may resolve by itself."""
    blocked, process = job.blocked.get(key), job.processes[key[0]]
    return (blocked is not None and blocked.has_limit) or (key[0] == key[1] and process.catches_alarm)
