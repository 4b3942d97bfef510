"""Queues, CUDA memory sent from process to process, and shared memory: what the probes found, joined.

- `ground`: the joins over one snapshot;
- `queues`, `names`: one view per queue: its content, producers, consumers, waiters, lock holders, and name;
- `exports`, `lost`: one view per transfer of CUDA memory that is not released yet, how much memory of each producer each
  process holds, and which transfers no process will ever receive;
- `segments`: which processes share CUDA memory of expandable segments;
- `memory`: /dev/shm, its users, and files left behind there;
- `views`: the rows of the above.

`Ipc` computes each of them when it is first asked for.  A view of the screen asks `of(observation)`, a topic of remarks
`job.ipc`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from mpmon.diagnosis.findings import Observation
from mpmon.diagnosis.ipc.exports import exports, pairs
from mpmon.diagnosis.ipc.ground import Ground, roles_of
from mpmon.diagnosis.ipc.lost import never_received
from mpmon.diagnosis.ipc.memory import memory
from mpmon.diagnosis.ipc.queues import queues
from mpmon.diagnosis.ipc.views import (
    ExportView,
    LeftoverView,
    LockView,
    MemoryView,
    PairView,
    QueueView,
    SharerView,
    SystemView,
)
from mpmon.diagnosis.roles import Role
from mpmon.model import Snapshot

__all__ = [
    "ExportView",
    "Ipc",
    "LeftoverView",
    "LockView",
    "MemoryView",
    "PairView",
    "QueueView",
    "SharerView",
    "SystemView",
    "of",
]


class Ipc:
    """What the processes of a job share at one moment."""

    def __init__(self, snapshot: Snapshot, roles: Mapping[int, Role], parts: Mapping[str, str]) -> None:
        """`parts`: see `History.queue_parts`."""
        self.ground = Ground(snapshot, roles, parts)

    @cached_property
    def queues(self) -> tuple[QueueView, ...]:
        """One view a queue."""
        return tuple(queues(self.ground))

    @cached_property
    def exports(self) -> tuple[ExportView, ...]:
        """CUDA memory that was sent and is not released yet."""
        return exports(self.ground)

    @cached_property
    def pairs(self) -> tuple[PairView, ...]:
        """How much CUDA memory of each producer each process holds."""
        return pairs(self.exports)

    @cached_property
    def never_received(self) -> tuple[tuple[ExportView, str], ...]:
        """Transfers that no process will ever receive, each with the reason."""
        return tuple(never_received(self.ground, self.exports, self.queues)) if self.ground.snapshot.exports else ()

    @cached_property
    def memory(self) -> MemoryView | None:
        """/dev/shm; `None` if it could not be read."""
        return memory(self.ground)


def of(observation: Observation) -> Ipc:
    """The same for an observation, which is what views of the screen get."""
    diagnosis = observation.diagnosis
    return Ipc(observation.snapshot, roles_of(diagnosis.processes), diagnosis.queue_parts)
