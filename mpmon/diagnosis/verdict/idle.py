"""Closed sets that are no hang: their goal waits by right for an event from outside that may never come."""

from __future__ import annotations

from mpmon.diagnosis.edges.leaves import looks_again
from mpmon.diagnosis.edges.supervisors import fed_by
from mpmon.diagnosis.event_loops import EventLoops
from mpmon.diagnosis.graph import Closed, Ending, Exited, Graph, NoReleaser, Status
from mpmon.diagnosis.loops import deadlocked
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.roles import HELPERS, is_python
from mpmon.diagnosis.stacks.shapes import entered
from mpmon.diagnosis.stacks.waits import ENDS_OF_PROCESSES, SIGNAL_CALLS, Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.stuck.stuck_set import stands_since
from mpmon.diagnosis.thresholds import PATIENCE_S
from mpmon.diagnosis.verdict.goals import OPENS_GOALS
from mpmon.diagnosis.verdict.requests import rests, serves, stands_by

_STAYS = OPENS_GOALS | {Wait.JOIN_THREAD, Wait.SIGNAL}
"""Waits of threads that started other threads or processes and have nothing more to do."""


def is_idle(job: JobState, graph: Graph, closed: Closed) -> bool:
    """The goal legitimately waits for an external event that may never come."""
    return (
        _only_sleeps(job, graph, closed)
        or _only_serves(job, graph, closed)
        or _only_prompts(job, graph, closed)
        or _only_streams(job, graph, closed)
        or _only_supervises(job, closed)
        or _awaits_file(job, graph, closed)
    )


def _only_sleeps(job: JobState, graph: Graph, closed: Closed) -> bool:
    """The goal sleeps until a signal or a deadline it chose itself, and nothing else in the job is stuck, but what takes only
    what the goal gives.
    """
    blocked = job.blocked.get(closed.goal)
    chosen = blocked is not None and (blocked.wakes_at is not None or blocked.syscall in SIGNAL_CALLS)
    asleep = chosen and job.wait_state(closed.goal).kind is Wait.SLEEP
    if not asleep or closed.members != (closed.goal,) or job.motion(closed.goal) is not Motion.NOT_SCHEDULED:
        return False
    stuck = ((key, found) for key in _at_work_beside(job, graph, closed) if (found := graph.closed(key)))
    return all(rests(job, key) and found.root_blockers == (closed.goal,) for key, found in stuck)


def _awaits_file(job: JobState, graph: Graph, closed: Closed) -> bool:
    """The goal looks for a file, such as a person's answer, and nobody of the job has ended or is stuck who could make it."""
    goal = closed.goal
    others = (key for key in closed.members if key != goal)
    if job.wait_state(goal).kind is not Wait.FILE_MARK or not all(rests(job, key) for key in others):
        return False
    if any(isinstance(root, (Exited, NoReleaser)) for root in closed.root_blockers):
        return False
    return all(graph.closed(key) is None for key in _at_work_beside(job, graph, closed))


def _only_supervises(job: JobState, closed: Closed) -> bool:
    """A process that has a handler of SIGTERM of its own waits for those to end that it started, which wait for what only it
    gives them: its handler tells them to end, or ends them.
    """
    joining = [
        pid for pid, tid in closed.members if pid == tid and job.wait_state((pid, tid)).kind in ENDS_OF_PROCESSES
    ]
    if len(joining) != 1 or not _handles_term(job, joining[0]):
        return False
    others = {pid for pid, _ in closed.members if pid != joining[0]}
    if any(joining[0] in queue.putters for queue in job.queues.values()):
        # Who has put work and then waits for the ends of others, may have forgotten to tell them that this was all.
        return False
    return bool(others) and fed_by(job, joining[0], others).issuperset(others)


def _handles_term(job: JobState, pid: int) -> bool:
    """A child of a fork has the handlers of its parent."""
    process = job.processes[pid]
    parent = job.processes.get(process.ppid)
    return process.catches_term and not (process.forked and parent is not None and parent.catches_term)


def _at_work_beside(job: JobState, graph: Graph, closed: Closed) -> list[ThreadKey]:
    """Main threads of other Python processes that do not stand by and do not wait for other processes to end."""
    others = [(pid, pid) for pid in job.processes if job.may_act(pid)]
    # A non-Python program that nobody waits for may sleep indefinitely.
    others = [key for key in others if key in job.stacks or is_python(job.processes[key[0]])]
    fed = fed_by(job, closed.goal[0], job.helpmates(closed.goal[0]))
    others = [key for key in others if key[0] not in fed and not job.only_sleeps(key)]
    strangers = [key for key in others if key not in closed.members and not stands_by(job, graph, key)]
    return [key for key in strangers if job.wait_state(key).kind not in OPENS_GOALS and not job.wait_state(key).idle]


def _only_prompts(job: JobState, graph: Graph, closed: Closed) -> bool:
    """A console beside the work: it waits only for a person's input, and other processes make progress."""
    if job.wait_state(closed.goal).kind is not Wait.DEBUGGER or closed.members != (closed.goal,):
        return False
    others = [(pid, pid) for pid in job.processes if pid != closed.goal[0] and job.is_alive(pid)]
    workers = [key for key in others if job.role(key[0]).kind not in HELPERS]
    return any(graph.node(key).status is Status.LIVE for key in workers)


def _only_serves(job: JobState, graph: Graph, closed: Closed) -> bool:
    """Servers at rest, while nothing else in the job is stuck: legitimately idle."""
    return _serves(job, graph, closed) and not _beside(job, graph, closed)


def stuck_beside(job: JobState, graph: Graph, closed: Closed) -> list[Closed]:
    """Where a goal only waits for servers at rest: what is stuck beside them, not because of them, and is the hang."""
    others = _beside(job, graph, closed) if _serves(job, graph, closed) else []
    return [other for other in others if set(graph.reached(closed.goal)).isdisjoint(other.root_blockers)]


def _beside(job: JobState, graph: Graph, closed: Closed) -> list[Closed]:
    """What is stuck beside a closed set. Who only just began to wait may go on by itself, as a client between two requests."""
    found = (graph.closed(key) for key in _at_work_beside(job, graph, closed) if _stands(job, key))
    return [other for other in found if other is not None]


def _stands(job: JobState, key: ThreadKey) -> bool:
    return not looks_again(job, key) and job.now - stands_since(job, key) >= PATIENCE_S


def _serves(job: JobState, graph: Graph, closed: Closed) -> bool:
    """Servers without requests, standby threads, and processes that wait for these to end or for a signal."""
    rest = [key for key in closed.members if job.wait_state(key).kind not in _STAYS]
    if not any(serves(job, key) for key in rest) or not all(stands_by(job, graph, key) for key in rest):
        return False
    if any(job.was_asked_to_end(key) for key in closed.members):
        return False
    if any(isinstance(root, (Exited, NoReleaser)) for root in closed.root_blockers):
        return False
    return not any(deadlocked(job.of(EventLoops).stuck(key)) for key in closed.members)


def _only_streams(job: JobState, graph: Graph, closed: Closed) -> bool:
    """The main thread of a server has called the library that runs its handlers, and one of these reads what its client sends
    next, which may be nothing for long; nothing else in the job is stuck.
    """
    goal = closed.goal
    file = entered(job.stacks[goal]) if goal in job.stacks and goal[0] == goal[1] else None
    reads = any(job.shape(key).reads and _runs(job, key, file) for key in closed.members if key[0] == goal[0])
    if not reads or closed.ending is Ending.CYCLE or any(job.was_asked_to_end(key) for key in closed.members):
        return False
    if any(isinstance(root, (Exited, NoReleaser)) for root in closed.root_blockers):
        return False
    return all(graph.closed(key) is None for key in _at_work_beside(job, graph, closed))


def _runs(job: JobState, key: ThreadKey, file: str | None) -> bool:
    return any(frame.file == file for frame in job.stacks[key].frames)
