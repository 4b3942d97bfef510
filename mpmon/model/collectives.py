"""Collectives and process groups, as the Flight Recorder of a rank tells them."""

from __future__ import annotations

from mpmon.model.columns import Moment, Pid, Row


class Collective(Row, frozen=True, kw_only=True):
    """One collective that a rank enqueued in a process group, as recorded by its Flight Recorder."""

    rank: int | None = None
    pid: Pid | None = None
    """Where the kernel tells which process answered."""
    backend: str
    """`gloo`, `nccl`: each counts separately."""
    group: str
    """Name of the process group, the same on every rank."""
    number: int
    """Its position in the group's sequence, the same on every rank (`collective_seq_id`)."""
    operation: str
    """`all_reduce`."""
    state: str
    """scheduled, started or completed; gloo does not tell the first two apart."""
    sizes: tuple[tuple[int, ...], ...] = ()
    """Shape of each input."""
    dtypes: tuple[str, ...] = ()
    """Element type of each input: `Float`."""
    file: str | None = None
    """Where it was called from; JSON of torch's own does not say."""
    line: int | None = None


class GroupProgress(Row, frozen=True, kw_only=True):
    """The progress of one rank in one process group."""

    backend: str
    name: str
    description: str = ""
    """`default_pg` for the group of all ranks."""
    ranks: tuple[int, ...] | None = None
    """Its members; `None` where the backend does not say."""
    enqueued: int
    """Number of the last collective that was enqueued."""
    waits_in: int | None = None
    """Number of the oldest collective that is not finished; `None` when all are."""
    counted: bool = True
    """False when the number is that of the group's status, which counts other operations too."""


class FlightRecord(Row, frozen=True, kw_only=True):
    """The Flight Recorder of one rank, as last read."""

    rank: int | None = None
    pid: Pid | None = None
    read_at: Moment
    """When it was queried, or its file was written, seconds since the epoch."""
    groups: tuple[GroupProgress, ...] = ()
    """Groups it has used; one that is missing was never used."""
    unnamed: int = 0
    """Groups without a name, which may be any group."""
