"""Whether a thread that waits for nothing in the job, or only polls, goes on by itself."""

from __future__ import annotations

from mpmon.diagnosis.edges.dead import crashed_relatives
from mpmon.diagnosis.edges.threads import takes_up_again
from mpmon.diagnosis.event_loops import EventLoops
from mpmon.diagnosis.loops import SLEEP, user_frame
from mpmon.diagnosis.progress.loop_progress import round_since
from mpmon.diagnosis.progress.motion import Motion, share, share_from
from mpmon.diagnosis.progress.pauses import pause_s
from mpmon.diagnosis.progress.state_change import acts_by_clock, may_give_up, moved_nothing
from mpmon.diagnosis.stacks.frames import asking, called_by_user, is_user
from mpmon.diagnosis.stacks.waits import (
    AMONG_RANKS,
    COMES_BY_READING,
    ENDS_OF_PROCESSES,
    EXCHANGES,
    REQUESTS,
    SLEEP_CALLS,
    Wait,
)
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.thresholds import ASKS_AGAIN_S, BY_CLOCK_S, NEXT_ROUND_S, POLLS_SHARE, RETRY_S, SOON_S
from mpmon.model import CLOCK, CLOCKS, Blocked


def may_act_by_clock(job: JobState, key: ThreadKey) -> bool:
    """The polling function also reads a clock, or compares a count of attempts with a limit, so it may act once enough time
    has passed, such as a loop that flushes its buffer every half minute.
    """
    stack, past = job.stacks.get(key), job.thread_history(key)
    if stack is None or past is None or stack.contents is None or job.now - job.stands_since(key) > BY_CLOCK_S:
        return False
    if stack.polls_for is not None:
        return False
    if not CLOCKS.isdisjoint(stack.tests or ()):
        # It leaves its loop once a time has come.
        return True
    polls = len(asking(stack)) - 1
    if any((place, number) == (polls, CLOCK) for place, number, _ in stack.contents):
        return acts_by_clock(stack)
    return may_give_up([sample for sample in past.samples if sample.at > job.stands_since(key)], stack.limits)


def gives_up_soon(job: JobState, key: ThreadKey) -> bool:
    """User code gave this wait a time limit that ends soon, and was not seen to wait for the same again, so the thread continues
    by itself, as after a sleep; or a thread that runs a library's code alone did, such as a scheduler's, if it does more than
    poll.
    """
    blocked, stack = job.blocked.get(key), job.stacks.get(key)
    if blocked is None or blocked.ran_at is None or stack is None:
        return False
    by_user = called_by_user(stack)
    if not by_user and (key[0] == key[1] or any(is_user(frame.file) for frame in stack.frames)):
        return False
    wakes = wakes_at(blocked)
    if wakes is None or not _is_near(job, wakes):
        return False
    return not takes_up_again(job, key) if by_user else wakes - blocked.ran_at > RETRY_S


def looks_again(job: JobState, key: ThreadKey) -> bool:
    """User code gave its wait a time limit that is too short for a standstill, and has something to do when the time is over: as
    the source of its loop says, or since the limit is too long for polling, as in `while not stop.wait(10): report()`. Of an
    event loop its tasks tell.
    """
    blocked, stack, kind = job.blocked.get(key), job.stacks.get(key), job.wait_state(key).kind
    pause = pause_s(blocked)
    if blocked is None or blocked.syscall in SLEEP_CALLS or kind is Wait.EVENT_LOOP:
        return False
    if pause is None or pause >= SOON_S or not (pause > ASKS_AGAIN_S or job.has_other_work(key)):
        return False
    by_user = stack is not None and stack.polls_for is None and called_by_user(stack)
    return by_user and not (kind is Wait.FUTEX and job.is_native(key))


def asks_soon_again(job: JobState, key: ThreadKey) -> bool:
    """The wait is one of a loop that renews it after a moment."""
    pause = pause_s(job.blocked.get(key))
    return pause is not None and pause <= RETRY_S


def ends_by_itself(job: JobState, key: ThreadKey) -> bool:
    """An event loop that waits for its own next timer, which from outside may be a heartbeat or work."""
    blocked = job.blocked.get(key)
    return blocked is not None and blocked.timeout_s is not None and blocked.timeout_s < SOON_S


def polls_for_the_dead(job: JobState, key: ThreadKey) -> bool:
    """Whatever the loop looks at, such as a database, or the library asks for over the network, a Python process that had to
    change it, or to answer, has crashed and is still a zombie, so that the loop does not look after it either; and no other
    process or thread of the job is left, but those that poll at the same line or wait for processes to end.
    """
    looks = bool(job.tests(key)) and not job.acts(key)
    if not (looks or _asks_by_polling(job, key)) or job.others_at_work(key):
        return False
    if not all(_waits_likewise(job, key, (pid, pid)) for pid in job.programs_beside(key[0])):
        return False
    crashed = (job.processes.get(pid) for pid in crashed_relatives(job, key[0]))
    # The kernel keeps no command line of a zombie, only the name of its program.
    return any(row is not None and "python" in row.name for row in crashed)


def _asks_by_polling(job: JobState, key: ThreadKey) -> bool:
    """The thread is in the call of a library that polls for its answer, and the process waits at no connection over which that
    could come.
    """
    polls = job.wait_state(key).kind is Wait.POLL and job.motion(key) is Motion.POLLING
    watched = (item for other in job.all_threads(key[0]) for item in job.waits_on(other))
    return polls and bool(job.shape(key).asks) and all(item.kind != "socket" for item in watched)


def _waits_likewise(job: JobState, key: ThreadKey, other: ThreadKey) -> bool:
    if job.wait_state(other).kind in ENDS_OF_PROCESSES:
        return True
    places = [
        [(frame.file, frame.line) for frame in row.frames] for one in (key, other) if (row := job.stacks.get(one))
    ]
    return len(places) > 1 and places[0] == places[1] and job.motion(other) in (Motion.POLLING, Motion.NOT_SCHEDULED)


def computes_between(job: JobState, key: ThreadKey) -> bool:
    """The thread has used more of a CPU than polling takes, ever since it was watched or since it began to poll."""
    past = job.thread_history(key)
    return past is not None and max(share(past.samples), share_from(past, job.stands_since(key), job.now)) > POLLS_SHARE


def manages(job: JobState, key: ThreadKey) -> bool:
    """A library's own thread that looks after something from time to time, such as time limits: what it may do is not known."""
    stack = job.stacks.get(key)
    return key[0] != key[1] and stack is not None and not any(is_user(frame.file) for frame in stack.frames)


def pauses(job: JobState, key: ThreadKey) -> bool:
    """The thread is in a sleep that is too long for polling and about to end; or in an event loop in which a task of the job's
    code sleeps: whether that one gets anything done is not known.
    """
    blocked, kind = job.blocked.get(key), job.wait_state(key).kind
    if kind is Wait.EVENT_LOOP:
        return any(row.waits == SLEEP and user_frame(row) for row in job.of(EventLoops).known(key))
    wakes = wakes_at(blocked) if sleeps_long(blocked) else None
    return kind is Wait.SLEEP and wakes is not None and _is_near(job, wakes)


def turns(job: JobState, key: ThreadKey) -> bool:
    """The thread runs from time to time, or sleeps, and not for long."""
    blocked = job.blocked.get(key)
    wakes = wakes_at(blocked) if blocked and blocked.syscall in SLEEP_CALLS else None
    return job.motion(key) is Motion.POLLING or (wakes is not None and _is_near(job, wakes))


def _is_near(job: JobState, wakes: float) -> bool:
    """A wait ends soon, or has just ended: its thread was read before the round was over."""
    return -NEXT_ROUND_S < wakes - job.now < SOON_S


def sleeps_long(blocked: Blocked | None) -> bool:
    """A sleep of known start that is too long for polling."""
    wakes = wakes_at(blocked)
    return blocked is not None and wakes is not None and blocked.ran_at is not None and wakes - blocked.ran_at > RETRY_S


def wakes_at(blocked: Blocked | None) -> float | None:
    """When a thread's wait with a time limit is over; `None` if it has none."""
    if blocked is None or blocked.wakes_at is not None or blocked.timeout_s is None or blocked.ran_at is None:
        return blocked.wakes_at if blocked else None
    return blocked.ran_at + blocked.timeout_s


def goes_round(job: JobState, key: ThreadKey) -> bool:
    """The thread computes in one loop without progress, and has done no I/O meanwhile."""
    past, life = job.thread_history(key), job.history.life(job.processes[key[0]])
    since = round_since(past.samples) if past else None
    if past is None or since is None:
        return False
    return not (life and life.io_at and life.io_at[-1] >= since) or moved_nothing(past.samples, since)


def owes_messages(job: JobState, key: ThreadKey) -> bool:
    """The thread is a main thread, while another process waits for a message that does not come."""
    mains = [(pid, pid) for pid in job.processes if pid != key[0] and job.is_alive(pid)]
    return key[0] == key[1] and any(
        job.wait_state(main).kind in COMES_BY_READING and job.motion(main) in (Motion.NOT_SCHEDULED, Motion.POLLING)
        for main in mains
    )


def keeps_waiting(job: JobState, key: ThreadKey) -> bool:
    """Another process has nothing to do meanwhile: one of its service processes is idle, or another process is blocked in a
    wait other than for an end.
    """
    others = [(pid, pid) for pid in job.processes if pid != key[0] and job.is_alive(pid)]
    servants = job.clients.get(key[0], ())
    return any(
        row[0] in servants if job.wait_state(row).idle else job.wait_state(row).kind in _MESSAGES
        and job.motion(row) in (Motion.NOT_SCHEDULED, Motion.POLLING)
        for row in others
    )  # fmt: skip


_MESSAGES = AMONG_RANKS | EXCHANGES | REQUESTS | {Wait.LOCK, Wait.PROCESS_EVENT, Wait.REMOTE_CALL}
"""Waits for an action of another thread or process, not for its end."""
