"""Every fact mpmon can know: one file a subject, all of them here by name.

A `Snapshot` is a small relational database of one moment: frozen rows in flat tables, joined by pid.
Within one snapshot a pid names one process; over time a process is (pid, start time), because pids are reused.
Rows carry what the machine said and no opinion; opinions live in `mpmon.diagnosis`.

What is not known is `None`, and why it is not known is a row of `Snapshot.unknowns` or of `Snapshot.probes`.
Units: seconds (float) for durations and for moments since the epoch, bytes for sizes, nanoseconds where the name says so.

Rows that did not change between two rounds are the same objects in both snapshots, so that comparing them costs an `is`
and a recording can leave them out.
"""

from __future__ import annotations

from mpmon.model.collectives import Collective, FlightRecord, GroupProgress
from mpmon.model.columns import Amount, AnyMoment, CallPlace, DeviceNumber, Moment, Name, Pid, Row, Turn
from mpmon.model.gpus import SLOWDOWNS, Gpu, GpuProcess, MigInstance, Xid
from mpmon.model.locks import BLOCK, PERMITS, JoinTarget, LockUse, SemaphoreUse
from mpmon.model.machines import LATE, NO_JOB, PIDS_OF_A_HOST, Elsewhere, Figures, Node
from mpmon.model.objects import Handle, KernelObject, Mount
from mpmon.model.processes import Cgroup, Exit, KnownChild, Process
from mpmon.model.readings import NOT_PYTHON, ProbeReport, Unknown
from mpmon.model.sharing import (
    ExportRecord,
    ImportRecord,
    Limits,
    QueueRecord,
    QueueState,
    SharedFile,
    SharedMemory,
    SharedUse,
    ShimProcess,
)
from mpmon.model.snapshot import Snapshot
from mpmon.model.stacks import (
    BOTH,
    BY_CLOCK,
    CLOCK,
    CLOCKS,
    MPMON,
    ONLY_COUNTED,
    PY_SPY,
    SENT_CODE,
    SOURCE_NOT_KNOWN,
    UNSEEN,
    USERS_WITHOUT_FILE,
    Frame,
    NativeFrame,
    NativeStack,
    Stack,
    variable_number,
)
from mpmon.model.tasks import SENDS_TO_OTHERS, Task
from mpmon.model.threads import NAMELESS_CALLS, Blocked, Spot, Thread

__all__ = [
    "BLOCK",
    "BOTH",
    "BY_CLOCK",
    "CLOCK",
    "CLOCKS",
    "LATE",
    "MPMON",
    "NAMELESS_CALLS",
    "NOT_PYTHON",
    "NO_JOB",
    "ONLY_COUNTED",
    "PERMITS",
    "PIDS_OF_A_HOST",
    "PY_SPY",
    "SENDS_TO_OTHERS",
    "SENT_CODE",
    "SLOWDOWNS",
    "SOURCE_NOT_KNOWN",
    "UNSEEN",
    "USERS_WITHOUT_FILE",
    "Amount",
    "AnyMoment",
    "Blocked",
    "CallPlace",
    "Cgroup",
    "Collective",
    "DeviceNumber",
    "Elsewhere",
    "Exit",
    "ExportRecord",
    "Figures",
    "FlightRecord",
    "Frame",
    "Gpu",
    "GpuProcess",
    "GroupProgress",
    "Handle",
    "ImportRecord",
    "JoinTarget",
    "KernelObject",
    "KnownChild",
    "Limits",
    "LockUse",
    "MigInstance",
    "Moment",
    "Mount",
    "Name",
    "NativeFrame",
    "NativeStack",
    "Node",
    "Pid",
    "ProbeReport",
    "Process",
    "QueueRecord",
    "QueueState",
    "Row",
    "SemaphoreUse",
    "SharedFile",
    "SharedMemory",
    "SharedUse",
    "ShimProcess",
    "Snapshot",
    "Spot",
    "Stack",
    "Task",
    "Thread",
    "Turn",
    "Unknown",
    "Xid",
    "variable_number",
]
