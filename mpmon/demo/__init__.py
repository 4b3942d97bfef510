"""Small real jobs that really hang, for trying mpmon.

A *scene* is one script of `mpmon.demo.scenes`, run as its own process by the *supervisor* (`mpmon.demo.supervisor`),
which ends it when mpmon ends, however mpmon ends.

Every process of a scene imports this package on its way to its own module.
So nothing is imported here that a user's job would not have: the code that starts scenes is loaded when it is called.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpmon.demo.running import RunningScene

DEFAULT_SCENE = "loader"
READY_WITHIN_S = 60.0
"""Importing torch from a cold disk takes tens of seconds."""


@dataclass(frozen=True)
class Scene:
    """One hanging job to show."""

    name: str
    title: str
    """One line for `mpmon demo --list`."""
    expected_cause: str
    """The cause that mpmon should find, `none` for a healthy job."""
    module: str
    """The script, by its full name."""
    uses_torch: bool = False
    """Runs torch's DataLoader where torch imports, else a multiprocessing job of the same shape."""

    needs_torch: bool = False
    """Not available without torch: it is about torch, or without torch its loop could not be told from work."""

    def label(self, *, torch_imported: bool) -> str:
        """The title, with a note if it runs without torch."""
        if self.uses_torch and not torch_imported:
            return f"{self.title} (same shape without torch)"
        return self.title


SCENES: tuple[Scene, ...] = (
    Scene(
        "loader",
        "a DataLoader worker sleeps between download retries while the trainer waits for its batch",
        "worker-stuck",
        "mpmon.demo.scenes.loader",
        uses_torch=True,
    ),
    Scene(
        "spin",
        "a DataLoader worker is in an endless busy loop in __getitem__",
        "worker-stuck",
        "mpmon.demo.scenes.spin",
        uses_torch=True,
        needs_torch=True,
    ),
    Scene(
        "stopped",
        "a guard stops a greedy DataLoader worker (SIGSTOP) and nobody resumes it",
        "stopped",
        "mpmon.demo.scenes.stopped",
        uses_torch=True,
    ),
    Scene(
        "dead",
        "a worker was killed; the main process waits for its result forever",
        "worker-dead",
        "mpmon.demo.scenes.dead",
    ),
    Scene(
        "queue-join",
        "a process is joined before the queue it filled is drained",
        "queue-join",
        "mpmon.demo.scenes.queue_join",
    ),
    Scene(
        "lock-cycle",
        "two processes take two locks in opposite order",
        "lock-cycle",
        "mpmon.demo.scenes.lock_cycle",
    ),
    Scene(
        "ddp",
        "four ranks train together: one waits in a barrier that the others never reach",
        "collective-mismatch",
        "mpmon.demo.scenes.ddp",
        uses_torch=True,
        needs_torch=True,
    ),
    Scene(
        "straggler",
        "four ranks train together and nothing hangs: one is slow, and the others wait for it at every step",
        "none",
        "mpmon.demo.scenes.straggler",
        uses_torch=True,
        needs_torch=True,
    ),
    Scene(
        "ipc",
        "a consumer keeps tensors of a producer and lets go of them slowly: who holds whose memory",
        "none",
        "mpmon.demo.scenes.ipc",
        uses_torch=True,
        needs_torch=True,
    ),
    Scene(
        "healthy",
        "a loader that delivers and a trainer that computes: nothing is wrong",
        "none",
        "mpmon.demo.scenes.healthy",
        uses_torch=True,
    ),
)


def scenes() -> tuple[Scene, ...]:
    """All scenes, in the order to show them.

    The folder of the scripts has the same name, but only the scenes' own processes import it.
    """
    return SCENES


def start(scene: str = DEFAULT_SCENE, ready_within_s: float = READY_WITHIN_S) -> RunningScene:
    """Start a scene and return when it hangs; leave the `with` block to end it."""
    from mpmon.demo.running import start_scene

    return start_scene(scene, ready_within_s)
