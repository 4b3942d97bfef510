"""The machines of a job, their health, and ranks that run on others."""

from __future__ import annotations

import msgspec

from mpmon.model.columns import Amount, Moment, Row


class Node(Row, frozen=True, kw_only=True):
    """One machine of a multi-machine job, in a snapshot joined from several (`mpmon.nodes`)."""

    host: str
    """As in `Process`: its name, with a number where several have the same."""
    number: int
    """Its pids and tids are those of its kernel and this times `PIDS_OF_A_HOST`."""
    taken_at: Moment | None = None
    """When its facts were read, by the clock of the snapshot; `None` where there are none."""
    offset_s: float = 0.0
    """How far its clock is ahead of that of the snapshot, as far as is known."""
    later_s: float = 0.0
    """Shift added to its times so that they align with the other machines."""
    cpu_count: int = 1
    addresses: tuple[str, ...] | None = None
    """As in `Snapshot`."""
    problem: str | None = None
    """Why nothing is known of it at the moment: `does not answer`."""
    state: str | None = None
    """Of the agent there: `fresh`, `late`, `unreachable`, `ended`, `no job`; `None` where recordings were made by hand."""
    heard_at: Moment | None = None
    """When it was last heard from, if it has been silent for unusually long."""
    version: str | None = None
    """Version of the mpmon there; `None` if unknown."""
    ranks: tuple[tuple[int, int], ...] = ()
    """Ranks that run there according to its agent, as ranges; empty if it reported none."""
    rights: str | None = None
    """What mpmon may not read there, and the remedy; empty where it may read the job, `None` where that is not known."""
    commands: tuple[str, ...] = ()
    """Commands for a person to log in there or to drain it; mpmon never runs them."""


PIDS_OF_A_HOST = 1 << 23
"""Larger than any pid of a kernel: PID_MAX_LIMIT of linux/threads.h is 2**22."""


LATE = "late"
"""The state of an agent that has been silent for some seconds."""


NO_JOB = "no job"
"""The state of an agent where no process of the job runs."""


class Figures(Row, frozen=True, kw_only=True, omit_defaults=False):
    """Health figures of a machine of the job, over the last seconds; a figure that is `None` has its reason in `reasons`."""

    host: str = ""
    """As in `Process`."""
    over_s: Amount = 0.0
    """The figures cover this many seconds."""
    load_per_cpu: Amount | None = None
    """One-minute load average per CPU: threads that run or are runnable, and those in uninterruptible sleep
    (proc_loadavg(5)).
    """
    steal_percent: Amount | None = None
    """CPU time that the hypervisor gave to others while something here wanted to run, of all CPU time (proc_stat(5))."""
    throttled_percent: Amount | None = None
    """Periods in which a control group of the job had used up its CPU quota, of those in which it wanted to run: `nr_throttled`
    and `nr_periods` of cpu.stat (the kernel's admin-guide/cgroup-v2); that of the group that has most.
    """
    memory_stall_percent: Amount | None = None
    """Time in which some task waited for memory: `some` of /proc/pressure/memory (the kernel's accounting/psi)."""
    gpus_slowed: Amount | None = None
    """Devices of the job that heat or their hardware slowed down at most readings."""
    gpu_clock_percent: Amount | None = None
    """SM clock of the job's slowest device that works, of its maximum."""
    gpu_utilization_percent: Amount | None = None
    """Mean of the job's devices."""
    gpu_power_watts: Amount | None = None
    """Mean of the job's devices."""
    nic_errors_per_s: Amount | None = None
    """Packets with errors, both directions of all network devices but loopback together: /proc/net/dev (proc_net(5))."""
    nic_drops_per_s: Amount | None = None
    """The same of packets that were dropped."""
    retransmit_percent: Amount | None = None
    """Share of TCP segments that were retransmitted, in the network namespace of the job's root (RFC 4022)."""
    reasons: dict[str, str] = msgspec.field(default_factory=dict)
    """Why a field is `None`."""


class Elsewhere(Row, frozen=True, kw_only=True):
    """Ranks of the job without a process in the snapshot, and what is known of them (`mpmon.nodes`)."""

    ranks: tuple[tuple[int, int], ...]
    """Their numbers, as ranges: first and last."""
    does: str
    """What all of them do: `waiting for all_reduce in main() at train.py:49`."""
    operation: str | None = None
    """The collective they are in, as far as they are in one."""
    members: tuple[tuple[int, int], ...] = ()
    """The ranks of the process group of that, as ranges; empty where that is not known."""
    since: Moment | None = None
    """Since when the last of them makes no progress; `None` if they make progress."""
    like: int | None = None
    """The number of a visible rank in the same state, which represents them; `None` if there is none."""
    hosts: str | None = None
    """The machines where they run, folded: `n[0-3,8-7999]`."""
    machines: int | None = None
    """The number of these machines."""
