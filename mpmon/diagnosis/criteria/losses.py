"""What the waiters of a stuck set lack because a process ended: exactly one kind of loss fits."""

from __future__ import annotations

from enum import Enum

from mpmon.diagnosis.ipc.queues import is_feeder
from mpmon.diagnosis.stacks.waits import AMONG_RANKS, Wait
from mpmon.diagnosis.stuck.stuck_set import StuckSet, crashed


class Loss(Enum):
    """What the waiters lack because a process ended."""

    RANK = "a rank"
    ITEMS = "producers of a queue or pipe"
    ROOM = "consumers of a queue"
    WORK = "whatever else they did"


def loss(stuck: StuckSet) -> Loss | None:
    """What is missing in a chain that ends in exited processes; `None` for any other chain."""
    kind = stuck.wait_state().kind
    if not stuck.gone:
        return None
    if kind in AMONG_RANKS:
        return Loss.RANK
    if any(stuck.wait_state(key).kind is Wait.QUEUE_PUT for key in stuck.at_end):
        return Loss.ROOM
    # If a process crashed at its work while others are left, or had been given work, the queue is only the symptom.
    at_work = any(crashed(gone) and (not gone.certain or _puts(stuck)) for gone in stuck.gone)
    return Loss.ITEMS if kind in (Wait.QUEUE_GET, Wait.PIPE_READ) and not at_work else Loss.WORK


def _puts(stuck: StuckSet) -> bool:
    """The process of the waiter has put something into a queue: one of its threads feeds it."""
    keys = stuck.job.threads((stuck.root or stuck.goal)[0])
    return any(is_feeder(stuck.job.stacks.get(key)) for key in keys)
