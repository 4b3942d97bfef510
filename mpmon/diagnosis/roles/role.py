"""What one process is in the job, and which kinds there are."""

from __future__ import annotations

from collections.abc import Mapping

from mpmon.diagnosis import libraries
from mpmon.model import Row

HELPERS = frozenset(row.kind for row in libraries.HELPERS)
"""Processes that only serve others and never count for progress by themselves."""

LASTING = frozenset(row.kind for row in libraries.HELPERS if row.lasts)
"""Helpers that end once the program that started them has ended."""

WORKERS = frozenset(row.kind for row in libraries.WORKERS)
"""Processes that work on request."""

POOL_WORKERS = frozenset(row.kind for row in libraries.WORKERS if row.of_pool)
"""Kinds of workers that compute the results of a pool."""

SERVICE_ROLES = HELPERS | WORKERS

RANK = "rank"
"""The kind of the members of a process group."""

MAIN = "main"
"""The kind of the job's main program."""


class Role(Row, frozen=True, kw_only=True):
    """What one process is in the job."""

    name: str
    """As in the report: `rank 2`, `dataloader worker 1`, `main` …"""
    kind: str
    """The name without its number: `rank`, `dataloader worker`, `pool worker`, `process`, `main` …"""
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    parent: int | None = None
    """The process it works for; for a worker started by a fork server, the server's own parent."""
    guessed: bool = False
    """The number is its place among its siblings, not its own number; for a launcher: it counts as one only because it
    is not Python and Python runs below it.
    """
    target_known: bool = True
    """`False` for a child of multiprocessing not seen to run its function: it has the name of its `Process`, if any."""
    target: str | None = None
    """The function that a child of multiprocessing runs."""
    given: str | None = None
    """The name of its `Process`, where its function is known as well."""
    nameless: bool = False
    """Only its parent is known: it was made by `os.fork`, or the name of its `Process` cannot be read."""

    @property
    def is_rank(self) -> bool:
        """The process is a rank itself, rather than one that works for a rank."""
        return self.kind == RANK

    @property
    def serves(self) -> bool:
        """The process works on request, so it is legitimately idle without one."""
        return self.kind in SERVICE_ROLES

    @property
    def starts(self) -> bool:
        """The process is not Python and started the job; what else it does, and whether it ever ends, is unknown."""
        return self.kind == "shell" or (self.kind == "launcher" and self.guessed)


GivenNames = Mapping[tuple[int, int], str]
"""Names that programs give their children, by the pids of the program and of the child."""
