"""Remarks: warnings that are not a hang. One file per topic.

To add one: a file here with `TOPIC`, `remarks` and a docstring, which is its manual page (`mpmon explain TOPIC`: what it
looks like, why, what to do); a line in `TOPICS`; and a test.
A topic reads the job, never another topic.  It reports only what it can know: a wrong remark is worse than none, and one
that is always present is not read.  So each topic reports a group of ranks or devices in one remark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.remarks import (
    address_space_near_limit,
    clock_skew,
    cuda_device_order,
    descriptors_near_limit,
    gpu_held,
    gpu_lost,
    gpu_memory_grows,
    gpu_not_own,
    gpu_shared,
    gpu_spinning,
    gpu_starved,
    gpu_throttled,
    gpu_unseen,
    ipc_contexts,
    ipc_dead_producer,
    ipc_expandable_segments,
    ipc_leak_by_consumer,
    ipc_leak_by_death,
    ipc_limbo,
    ipc_never_received,
    ipc_not_collected,
    ipc_rebuilt_twice,
    ipc_receiver_grows,
    ipc_sync_mode,
    ipc_torch_faults,
    items_lost,
    maps_near_limit,
    mount_silent,
    node_rights,
    node_slow,
    node_unreachable,
    node_version,
    queue_undrained,
    recording_behind,
    recording_cut,
    recordings_apart,
    shm_deleted,
    shm_near_full,
    shm_orphans,
    shm_split,
)
from mpmon.diagnosis.state.job_state import JobState


class Topic(Protocol):
    """What a module of this package offers."""

    __doc__: str | None

    @property
    def TOPIC(self) -> str:  # noqa: N802  a constant of the module
        """Its name: `gpu-shared`."""
        ...

    @staticmethod
    def remarks(job: JobState) -> Iterator[Remark]:
        """The remarks that apply now."""
        ...


TOPICS: tuple[Topic, ...] = (
    recording_cut,
    recordings_apart,
    recording_behind,
    node_unreachable,
    node_version,
    node_rights,
    clock_skew,
    node_slow,
    mount_silent,
    gpu_lost,
    ipc_rebuilt_twice,
    shm_deleted,
    shm_split,
    cuda_device_order,
    items_lost,
    ipc_dead_producer,
    queue_undrained,
    shm_near_full,
    descriptors_near_limit,
    maps_near_limit,
    address_space_near_limit,
    ipc_torch_faults,
    ipc_expandable_segments,
    ipc_leak_by_death,
    ipc_never_received,
    ipc_leak_by_consumer,
    ipc_limbo,
    ipc_not_collected,
    ipc_sync_mode,
    ipc_receiver_grows,
    gpu_spinning,
    gpu_held,
    gpu_memory_grows,
    gpu_not_own,
    gpu_shared,
    gpu_starved,
    gpu_throttled,
    gpu_unseen,
    ipc_contexts,
    shm_orphans,
)
"""In the order in which they are reported: the worst first."""


def remarks(job: JobState) -> tuple[Remark, ...]:
    """All remarks that apply now."""
    return tuple(remark for topic in TOPICS for remark in topic.remarks(job))
