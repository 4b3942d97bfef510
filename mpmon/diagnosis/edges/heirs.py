"""Which of several processes that have the same end of a pipe or a connection use it.

A fork inherits the ends of all its parent's pipes and sockets, and few programs close what they do not need. Whose calls, since
its process began, name an end in a variable, uses it; the others need not. Who names both ends has made the pair, and tells
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile

from mpmon.diagnosis.ipc.queues import is_feeder
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.roles import PROCESS_FILE
from mpmon.diagnosis.stacks.frames import calls, innermost_user
from mpmon.diagnosis.stacks.waits import ENDS_OF_PROCESSES, Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import Frame, Handle, KernelObject


def users(job: JobState, handles: Iterable[Handle], near: KernelObject) -> list[Handle]:
    """Those of the descriptors of the far end whose processes may use it; all if nothing tells. A process that does anything but
    wait for others of the job is never left out: it may reach the end through an object or a global variable.

    Args:
        job: The job at one moment.
        handles: Descriptors of the far end.
        near: The object that somebody waits on.
    """
    found = list(handles)
    naming = _naming(job, found, near)
    return [row for row in found if row in naming or not _only_waits(job, row.pid)] if naming else found


def told(job: JobState, near: KernelObject, *, writes: bool) -> str:
    """Which processes use the far end of an object that somebody reads or `writes`, as evidence; empty where nothing tells."""
    handles = job.holders.get(near.peer or near.id, ())
    handles = [row for row in handles if near.peer or (row.reads if writes else row.writes)]
    naming = _naming(job, handles, near)
    pids = dict.fromkeys(row.pid for row in naming)
    return f"only the calls of pid {', '.join(map(str, pids))} name that end" if 0 < len(naming) < len(handles) else ""


def keepers(job: JobState, key: ThreadKey) -> tuple[int, ...]:
    """The processes that keep open the far end of what a thread reads, and so keep its end of file away, if all that have that
    end have only inherited it: they wait for others, and their calls name other ends. Empty if one may send something.
    """
    row, items = job.blocked.get(key), list(job.waits_on(key))
    if row is None or row.writes or len(items) != 1 or items[0].kind not in ("pipe", "socket"):
        return ()
    (near,) = items
    far = near.peer or near.id
    handles = [row for row in job.holders.get(far, ()) if near.peer or row.writes]
    others = [row for row in handles if row.pid != key[0]]
    if far in job.outsiders or not all(_has_only_inherited(job, row) for row in others):
        return ()
    return tuple(dict.fromkeys(row.pid for row in others))


def _has_only_inherited(job: JobState, handle: Handle) -> bool:
    process, named = job.processes.get(handle.pid), _named(job, handle.pid)
    if process is None or not process.forked or named is None:
        return False
    by_self = [frame.own_ends for frame in _own_calls(job, handle.pid)]
    names = named.union(*(ends or () for ends in by_self))
    return None not in by_self and bool(names) and handle.fd not in names and _only_waits(job, handle.pid)


_FOR_OTHERS = ENDS_OF_PROCESSES | {
    Wait.QUEUE_GET,
    Wait.QUEUE_PUT,
    Wait.LOCK,
    Wait.PROCESS_EVENT,
    Wait.COLLECTIVE,
    Wait.OTHER_CLIENTS,
}
"""Waits for other processes of the job."""


def _only_waits(job: JobState, pid: int) -> bool:
    """Its main thread waits for others of the job, and it has no other thread at work."""
    main = (pid, pid)
    waits = job.wait_state(main).kind in _FOR_OTHERS and job.motion(main) is Motion.NOT_SCHEDULED
    return waits and not job.others_at_work(main)


def _naming(job: JobState, found: list[Handle], near: KernelObject) -> list[Handle]:
    """The descriptors that their processes' calls name; none if that is not known of all."""
    pids = {row.pid for row in found}
    named = {pid: _named(job, pid) for pid in pids} if len(pids) > 1 else {}
    if None in named.values():
        return []
    return [
        row for row in found
        if row.fd in (named.get(row.pid) or ()) and not _has_both(job, row, near, named[row.pid])
    ]  # fmt: skip


def _has_both(job: JobState, far: Handle, near: KernelObject, named: frozenset[int] | None) -> bool:
    """The calls of the process name the near end too."""
    ends = (row for row in job.holders.get(near.id, ()) if row.pid == far.pid and row.fd in (named or ()))
    return any(row.object != far.object or row.writes != far.writes for row in ends)


def _named(job: JobState, pid: int) -> frozenset[int] | None:
    """The descriptors that the calls of a process name since it began; `None` where its calls are not known, not told from
    those of the process it was forked from, or name more than is read.
    """
    main, process = job.stacks.get((pid, pid)), job.processes.get(pid)
    if main is None or process is None or (process.forked and not any(map(_begins, main.frames))):
        return None
    if (innermost := innermost_user(main)) and innermost.function == "<module>":
        # The variables of a module are not among those of its call.
        return None
    return frozenset(end for frame in _own_calls(job, pid) for end in frame.ends)


def _own_calls(job: JobState, pid: int) -> Iterator[Frame]:
    """The calls of the threads of a process since it began, without those that send the items of queues: one that has put
    nothing so far has no such thread, and may yet put something.
    """
    stacks = (stack for key in job.threads(pid) if (stack := job.stacks.get(key)) and not is_feeder(stack))
    return (frame for stack in stacks for frame in takewhile(_is_own, stack.frames))


def _begins(frame: Frame) -> bool:
    """What a forked process of multiprocessing begins with: the calls around it are its parent's."""
    return calls(frame, PROCESS_FILE, ("run",))


def _is_own(frame: Frame) -> bool:
    return not _begins(frame)
