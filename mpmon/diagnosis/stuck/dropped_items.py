"""Items that the feeder thread of a queue could not pickle, and so dropped.

`Queue.put` returns at once, and a feeder thread pickles and sends the item (Lib/multiprocessing/queues.py, `_feed`). If that
fails, it prints a traceback to standard error and goes on. Its variable `obj` is then still bound to the item: of one that
was sent, to the bytes.
"""

from __future__ import annotations

from mpmon.diagnosis.edges.items import queues
from mpmon.diagnosis.ipc.queues import is_feeder
from mpmon.diagnosis.stacks.frames import has
from mpmon.diagnosis.stacks.waits import READS, Wait
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.stuck.stuck_set import StuckSet
from mpmon.model import Frame, Stack

SENT = "memoryview"
"""The type of a pickled item."""


def dropped(stuck: StuckSet) -> dict[ThreadKey, ThreadKey]:
    """The main threads of processes of a stuck set that put an item last which was dropped, each with a member that waits for
    items of that queue; empty where another one who put into it is not seen to wait for more to do.
    """
    drops, found = stuck.job.of(_Drops), dict[ThreadKey, ThreadKey]()
    for reader in stuck.members_in(Wait.QUEUE_GET) if drops.pipes else ():
        for queue in queues(stuck.job, stuck.job.waits_on(reader)):
            alive = [pid for pid in queue.putters if pid != reader[0] and stuck.job.is_alive(pid)]
            if all(_is_stuck(stuck, pid) for pid in alive):
                found.update(((pid, pid), reader) for pid in alive if (pid, queue.object) in drops.pipes)
    return found


def _is_stuck(stuck: StuckSet, pid: int) -> bool:
    """The chain ends at its main thread, or this waits for an answer or for more to do; not for something that a third has."""
    main = (pid, pid)
    reads = main in stuck.closed.members and stuck.wait_state(main).kind in READS
    return main in stuck.at_end or (reads and stuck.is_mutual)


class _Drops:
    """All dropped items of a job, searched once: `job.of(_Drops)`."""

    def __init__(self, job: JobState) -> None:
        calls = ((key[0], call) for key, stack in job.stacks.items() if (call := _drops(stack)))
        self.pipes = frozenset(
            (pid, row.object) for pid, call in calls for name in job.held_by.get(pid, ()) for row in job.holders.get(name, ())
            if row.pid == pid and row.writes and row.fd in call.ends
        )  # fmt: skip
        """Each with the process that put the item, and the pipe of the queue."""


def _drops(stack: Stack) -> Frame | None:
    """The call of a feeder thread that waits for an item, and has not sent the last one."""
    if not is_feeder(stack) or not has(stack, "threading.py", ("wait",)):
        return None
    call = next((frame for frame in stack.frames if frame.function.endswith("_feed")), None)
    return call if call and (call.known or {}).get("obj", SENT) != SENT else None
