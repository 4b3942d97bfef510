"""Where observations come from: a live job or a recording. All modes of the program iterate one of these."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from mpmon.diagnosis.findings import Observation
from mpmon.snapshot_buffer import SnapshotBuffer


class Watch(Protocol):
    """A stream of observations, and the few wishes a view may have of it. All methods are safe from any thread."""

    live: bool
    """False for a recording."""

    is_here: bool
    """The processes are on this machine, and may be sent signals; false for a recording."""

    title: str
    """What is watched, for the first line: `pid 4100`, `recording hang.jsonl.gz`."""

    speed: float
    """How fast a recording plays, 1.0 as it was; without effect on a live job."""

    length: int | None
    """How many observations a recording has; `None` for a live job, and while that is not known."""

    buffer: SnapshotBuffer
    """Past observations."""

    def __iter__(self) -> Iterator[Observation]:
        """Observations as they come; ends with the job, with the recording, or after `stop`."""
        ...

    def look_now(self) -> None:
        """Look at everything at once, expensive facts too."""
        ...

    def attend(self, pid: int | None) -> None:
        """The user looks at this process: keep its stacks fresh."""
        ...

    def enter(self, host: str) -> None:
        """The user looks at this machine of a job on several: its facts are wanted; empty for none in particular."""
        ...

    def stop(self) -> None:
        """End the iteration soon."""
        ...

    def pause(self, paused: bool) -> None:  # noqa: FBT001  a switch
        """Hold a recording; a live job goes on being watched."""
        ...

    def step(self) -> None:
        """Give one more observation of a paused recording."""
        ...

    def go(self, number: int) -> None:
        """Have a recording go on after this observation; nothing changes for a live job."""
        ...

    def find_hang(self) -> None:
        """Read a recording on until it hangs, give the observation in which that began, and pause there.

        Without a hang the last one is given. Nothing changes for a live job.
        """
        ...
