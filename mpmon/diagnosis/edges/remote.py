"""Waits of torch.distributed.rpc: for the reply to a call, and for the other processes to reach the shutdown.

Native threads transfer messages, serve calls and deliver replies; they have Python frames only while they run a user
function (`_run_function` of torch/distributed/rpc/internal.py). So the absence of other Python threads means nothing: a
process in `rpc.shutdown` keeps serving.
"""

from __future__ import annotations

from mpmon.diagnosis.edges.dead import crashed, dead_ranks
from mpmon.diagnosis.graph import WaitEdge
from mpmon.diagnosis.graph.nodes import FEW
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.stacks.frames import has
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState

_SPINS = "TP_SHM_reactor"
"""A thread of TensorPipe that looks for messages in shared memory all the time (tensorpipe/transport/shm/reactor.cc)."""

_SERVES = ("torch/distributed/rpc/internal.py", ("_run_function",))


def remote_call(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """Threads of other processes that run a remote call, and crashed processes. If there are none, the call or its reply is
    still in transit, or its function has returned a future that another call completes (`async_execution`).
    """
    words = job.wait_state(key).words
    serving = [thread for pid in _others(job, key) for thread in job.threads(pid) if _serves(job, thread)]
    dead = crashed(job, key[0])
    if not serving and not dead:
        return _own_call(job, key) or _put_off(job, key)
    names = several([f"pid {pid}" for pid in dict.fromkeys(pid for pid, _ in serving)])
    evidence = f"torch.distributed.rpc: among the other processes, {names} is running a remote call" if serving else ""
    return WaitEdge((*serving, *dead), words=words, evidence=evidence)


def _own_call(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """A call from inside a call, for which no thread of any process is left: those that serve calls are taken."""
    own = tuple(thread for thread in job.threads(key[0]) if _serves(job, thread))
    if key not in own or job.motion(key) is not Motion.NOT_SCHEDULED:
        return None
    words = f"an answer that only thread{'s' * (len(own) > 1)} of its own could give"
    evidence = f"torch.distributed.rpc: no other process runs a remote call, and pid {key[0]} waits in its own"
    return WaitEdge(own, every=len(own) == 1, words=words, evidence=evidence)


def _put_off(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """An answer that nobody works on: any process may make the call that completes it."""
    working = job.of(Callers).threads
    targets = working if len(working) > FEW else tuple(thread for thread in working if thread != key)
    evidence = "torch.distributed.rpc: no process runs a remote call"
    return WaitEdge(targets, words="an answer that another call would complete", evidence=evidence) if targets else None


def remote_end(job: JobState, key: ThreadKey) -> WaitEdge | None:
    """All other processes have to reach the shutdown too."""
    absent = [pid for pid in _others(job, key) if job.wait_state((pid, pid)).kind is not Wait.REMOTE_END]
    if dead := dead_ranks(job, key[0], job.role(key[0]).world_size, len(_others(job, key)) + 1):
        return WaitEdge(tuple(dead), every=True, words="the shutdown of rpc with a process that ended")
    if not absent and (outside := job.world.outside(job.world.elsewhere)):
        return WaitEdge(outside, every=True, words=f"the shutdown of rpc with {several([end.who for end in outside])}")
    if not absent:
        return None
    names = job.names(absent)
    return WaitEdge(tuple((pid, pid) for pid in absent), every=True, words=f"the shutdown of rpc with {names}")


class Callers:
    """The threads of a job with torch's RPC that may call: the same tuple for all that wait."""

    def __init__(self, job: JobState) -> None:
        pids = [pid for pid in sorted(job.in_rpc) if job.is_alive(pid)]
        # Native threads carry the messages and run functions of C++: while one runs, something may be on its way.
        natives = [key for pid in pids for key in job.natives_at_work(pid) if _name(job, key) != _SPINS]
        self.threads: tuple[ThreadKey, ...] = (*(key for pid in pids for key in job.working_threads(pid)), *natives)


def _name(job: JobState, key: ThreadKey) -> str:
    past = job.thread_history(key)
    return past.thread.name if past else ""


def _others(job: JobState, key: ThreadKey) -> list[int]:
    return [pid for pid in sorted(job.in_rpc) if pid != key[0] and job.is_alive(pid)]


def _serves(job: JobState, key: ThreadKey) -> bool:
    stack = job.stacks.get(key)
    return has(stack, *_SERVES)
