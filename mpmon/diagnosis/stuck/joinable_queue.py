"""A thread that joins a `JoinableQueue` while only its own process's tasks are unfinished.

`join` waits until `task_done` has been called for every item that was put. The missing calls are the items still in the
queue, plus each process's surplus of taken items over `task_done` calls. If the queue is empty and the joining process's
own surplus equals the missing calls, the surpluses of all others add up to zero.
"""

from __future__ import annotations

import msgspec

from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.stuck_set import StuckSet


class OwnTasks(msgspec.Struct, frozen=True):
    """A thread that joins a queue in which only its own process has unfinished tasks."""

    key: ThreadKey
    count: int
    """Number of unfinished tasks."""
    evidence: str


def own_tasks(stuck: StuckSet) -> OwnTasks | None:
    """The first such member of a closed set. A process with other working threads may have given them the tasks."""
    found = (_own_tasks(stuck, key) for key in stuck.members_in(Wait.PROCESS_EVENT))
    return next((row for row in found if row), None)


def _own_tasks(stuck: StuckSet, key: ThreadKey) -> OwnTasks | None:
    blocked = stuck.job.blocked.get(key)
    joined = blocked.waits_on if blocked else ()
    queue = next((row for row in stuck.job.snapshot.queues if row.joined in joined), None)
    if queue is None or not queue.unfinished or queue.items != 0 or stuck.job.others_at_work(key):
        return None
    taken = queue.unfinished
    if dict(queue.undone).get(key[0]) != taken:
        return None
    said = (
        f"task_done() is missing for {taken} {'item' if taken == 1 else 'items'} of {queue.object}; by its acquire "
        f"counts pid {key[0]} has taken {taken} more than it called task_done() for"
    )
    return OwnTasks(key, taken, said)
