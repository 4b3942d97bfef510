"""How long something has to stand still before it is called hung, slow, or too early to tell."""

from __future__ import annotations

from mpmon.diagnosis.edges.leaves import looks_again
from mpmon.diagnosis.graph import Ending, Graph, NoReleaser, Status
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.progress.pauses import pause_s
from mpmon.diagnosis.stacks.waits import EVENTS, Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.stuck.links import stalls
from mpmon.diagnosis.stuck.stuck_set import StuckSet, doing, stands_since
from mpmon.diagnosis.thresholds import (
    FROM_START_S,
    LOOKS_SPAN_S,
    MIN_WATCH_S,
    NEXT_ROUND_S,
    OPEN_PATIENCE_S,
    PATIENCE_S,
    POLLS_IN_VAIN,
    RUNNING_PATIENCE_S,
    STILL_S,
    STOPPED_PATIENCE_S,
)
from mpmon.diagnosis.verdict.goals import OPENS_GOALS
from mpmon.diagnosis.verdict.requests import is_server

_ENDS_OF_THREADS = frozenset({Wait.EXIT, Wait.JOIN_THREAD})


def is_ripe(stuck: StuckSet) -> bool:
    """The set has stood still long enough to be called a hang."""
    job = stuck.job
    if job.history.watched_s < MIN_WATCH_S or stuck.stood_s < max(_patience_s(stuck), _rounds_of_polling_s(stuck)):
        return False
    if _moves_by_itself(stuck):
        return False
    # A thread that retries may succeed at its next attempt, if a process that just ended released what it needs.
    polls = stuck.motion() is Motion.POLLING and (stuck.ending is Ending.LEAF or not stuck.closed.exact)
    anybody = [*job.processes, *(row.pid for row in job.snapshot.exits)]
    ended = anybody if polls else [gone.pid for gone in stuck.gone]
    ago = [job.now - at for pid in ended if (at := job.ended_at(pid)) is not None]
    # Ends that come all the time, such as of a command that looks at the GPUs each second, bring nothing.
    usual = stuck.ending is Ending.LEAF and any(NEXT_ROUND_S <= seconds < RUNNING_PATIENCE_S for seconds in ago)
    if any(seconds < NEXT_ROUND_S for seconds in ago) and not usual:
        return False
    edge = stuck.graph.node(stuck.goal).edge
    if stuck.is_goal or job.wait_state(stuck.goal).kind in OPENS_GOALS or (edge and edge.polled):
        return True
    return job.now - stands_since(job, stuck.goal) >= NEXT_ROUND_S


def _moves_by_itself(stuck: StuckSet) -> bool:
    """Whom the root blockers wait for has other work, or these only look every few seconds; unless it is known who ended."""
    blamed = (pid for root in stuck.closed.root_blockers if isinstance(root, NoReleaser) for pid in root.blame)
    if stuck.ending is Ending.GONE or not all(map(stuck.job.is_alive, blamed)):
        return False
    return _has_other_work(stuck) or _only_looks_again(stuck)


def _has_other_work(stuck: StuckSet) -> bool:
    """A root blocker, or a thread that one waits for, goes on whatever it waits for, as its source says, and is not known
    to hold anything that others wait for.
    """
    asked = dict.fromkeys(key for end in stuck.at_end for key in stuck.graph.reached(end))
    edges = [edge for key in asked if (edge := stuck.graph.node(key).edge)]
    held = {target for edge in edges if edge.holder_known for target in edge.targets}
    return any(stuck.job.has_other_work(key) and looks_again(stuck.job, key) for key in asked if key not in held)


def _only_looks_again(stuck: StuckSet) -> bool:
    """In each process of the root blockers, apart from those that wait for others to end, one looks again after some seconds; not
    while it is known what they hold.
    """
    edges = {key: stuck.graph.node(key).edge for key in stuck.at_end}
    if any(edge and edge.holder_known for edge in edges.values()):
        return False
    acting = [key for key, edge in edges.items() if edge is None or not edge.of_end]
    looking = {pid for pid, tid in acting if looks_again(stuck.job, (pid, tid))}
    return bool(acting) and looking.issuperset(pid for pid, _ in acting)


def _patience_s(stuck: StuckSet) -> float:
    """Seconds that the root blockers must have stood still."""
    vain = stuck.ending is Ending.NOBODY and stuck.motion() is Motion.POLLING
    least = PATIENCE_S if stuck.is_frozen or vain or _polls_while_others_stand(stuck) else RUNNING_PATIENCE_S
    if _awaits_alarm(stuck):
        return OPEN_PATIENCE_S
    sure = stuck.is_final or stuck.motion() is Motion.BUSY_LOOP
    # Nobody outside answers over a connection on which nothing arrives.
    from_start = stuck.ending is Ending.EXTERNAL and _came_with_them(stuck) and not stalls(stuck)
    # When a thread that sleeps ran last, the kernel tells.
    span = MIN_WATCH_S if stuck.is_frozen else LOOKS_SPAN_S
    stood_before = stuck.job.history.watched_s - stuck.stood_s < span and not from_start
    if sure or stood_before:
        return least
    return STOPPED_PATIENCE_S if stuck.wait_state().kind is Wait.STOPPED else OPEN_PATIENCE_S


def _came_with_them(stuck: StuckSet) -> bool:
    """The watch began when the processes of the set did."""
    job = stuck.job
    rows = (job.processes.get(pid) for pid, _ in stuck.closed.members)
    began = min((row.start_time for row in rows if row), default=0.0)
    return job.now - job.history.watched_s - began < FROM_START_S


def _awaits_alarm(stuck: StuckSet) -> bool:
    """Another member waits for data of Python code at the end of the chain that handles SIGALRM, at a time that cannot be read of
    another process (setitimer(2)): the handler may send it. A child of a fork has the handlers of its parent, but not its timers.
    """
    edges = (edge for key in stuck.closed.members if (edge := stuck.graph.node(key).edge) and edge.of_data)
    asked = {target for edge in edges for target in edge.targets}
    mains = (key for key in stuck.at_end if key in asked and key in stuck.job.stacks and key[0] == key[1])
    return any(_may_have_set_alarm(stuck.job, pid) for pid, _ in mains)


def _may_have_set_alarm(job: JobState, pid: int) -> bool:
    process = job.processes[pid]
    parent = job.processes.get(process.ppid)
    inherited = process.forked and parent is not None and parent.catches_alarm
    return process.catches_alarm and not process.stopped and not inherited


def _polls_while_others_stand(stuck: StuckSet) -> bool:
    """No root blocker computes, and those that wait for them have stood still for long, as the kernel tells: since before mpmon
    could see that the root blockers poll in vain.
    """
    job = stuck.job
    others = [key for key in stuck.closed.core if key not in stuck.at_end]
    polls = all(job.motion(key) in (Motion.NOT_SCHEDULED, Motion.POLLING) for key in stuck.at_end)
    return (
        polls
        and bool(others)
        and all(
            job.motion(key) is Motion.NOT_SCHEDULED and job.now - stands_since(job, key) >= RUNNING_PATIENCE_S
            for key in others
        )
    )


def _rounds_of_polling_s(stuck: StuckSet) -> float:
    """Seconds it takes to see a polling root blocker re-poll without result often enough."""
    alone = stuck.ending in (Ending.LEAF, Ending.NOBODY)
    asks = stuck.root is not None and alone and not stuck.wait_state().idle
    polls = asks and stuck.motion() is Motion.POLLING
    return POLLS_IN_VAIN * (pause_s(stuck.blocked()) or 0.0) if polls else 0.0


def has_only_stood(
    job: JobState, graph: Graph, goals: list[ThreadKey], stuck_sets: list[StuckSet]
) -> tuple[float, str] | None:
    """For a goal that was never seen to progress, but not for long enough to call it hung: since when it has stood still,
    and what it does.
    """
    for stuck in stuck_sets:
        if _from_the_beginning(job, stuck.stood_s) and not _moves_by_itself(stuck):
            return job.now - stuck.stood_s, f"{stuck.role()} is {stuck.doing()}"
    for goal in goals:
        rested_s = (
            0.0 if graph.node(goal).status is Status.IDLE or is_server(job, goal) else _rested_s(job, graph, goal)
        )
        if _from_the_beginning(job, rested_s) and rested_s < PATIENCE_S:
            return job.now - rested_s, f"{job.role(goal[0]).name} is {doing(job, goal)}"
    return None


def _rested_s(job: JobState, graph: Graph, goal: ThreadKey) -> float:
    """For how long neither a thread nor any thread it waits for has run, seconds."""
    return min(job.now - past.ran_at if (past := job.thread_history(key)) else 0.0 for key in graph.reached(goal))


def _from_the_beginning(job: JobState, stood_s: float) -> bool:
    """It has stood still for nearly the whole observation, and for long enough to be seen at least twice."""
    return stood_s >= STILL_S and job.history.watched_s - stood_s < MIN_WATCH_S


def is_slow(job: JobState, graph: Graph, goal: ThreadKey) -> bool:
    """The goal has waited for a while for what another thread owes it. Waiting for a thread to end does not count: that may
    take any time.
    """
    return job.wait_state(goal).kind not in _ENDS_OF_THREADS and waits_long(job, graph, goal)


def waits_long(job: JobState, graph: Graph, goal: ThreadKey) -> bool:
    """The goal has waited for a while for a thread that makes progress: not for processes to end, and not for whatever
    happens next.
    """
    if job.wait_state(goal).kind in OPENS_GOALS | EVENTS or is_server(job, goal):
        return False
    if graph.node(goal).status is not Status.WAITS or graph.closed(goal):
        return False
    stands = job.motion(goal) not in (Motion.PROGRESSING, Motion.UNKNOWN)
    return stands and job.now - stands_since(job, goal) >= PATIENCE_S
