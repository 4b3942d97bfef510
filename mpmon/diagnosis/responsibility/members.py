"""What the members of a stuck set need of one another."""

from __future__ import annotations

from mpmon.diagnosis.stacks.frames import is_user
from mpmon.diagnosis.state.history import ThreadKey
from mpmon.diagnosis.stuck.stuck_set import StuckSet


def helpers_of(stuck: StuckSet, key: ThreadKey) -> list[ThreadKey]:
    """The targets of a member's wait that are in the core."""
    return [target for target in stuck.targets(key) if isinstance(target, tuple) and target in stuck.closed.core]


def pids_asked(stuck: StuckSet, key: ThreadKey) -> set[int | None]:
    """The processes of the targets of a member's wait; `None` stands for anything else."""
    return {target[0] if isinstance(target, tuple) else None for target in stuck.targets(key)}


def in_users_code(stuck: StuckSet, key: ThreadKey) -> bool:
    """The thread runs code of the job, not that of libraries alone."""
    stack = stuck.job.stacks.get(key)
    return stack is not None and any(is_user(frame.file) for frame in stack.frames)


def waits_for_room(stuck: StuckSet, key: ThreadKey) -> bool:
    """The thread waits for room in a pipe, a queue or a socket, or the tasks of its event loop do."""
    edge = stuck.graph.node(key).edge
    return edge is not None and edge.of_room
