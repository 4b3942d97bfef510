"""GPU memory is held by leftover processes of the job, or by processes outside the job.

What it looks like: CUDA is out of memory although the job uses little; nvidia-smi shows a full device, perhaps without any
process; a rank was killed and its memory was not freed.
Why: a child that outlives its rank keeps its memory.  A forked child (a DataLoader worker) keeps even the memory of its dead
rank: it inherited the rank's descriptors of /dev/nvidia*.  The driver does not list the child, but goes on listing the dead
rank, with all its memory (seen on an H100 with driver 580).  Or another process, often of an earlier run, uses the same
device.
What to do: end the pids listed; before you signal another user's process, ask its owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.gpus.shares import device_of, is_named
from mpmon.diagnosis.humanize import several, size
from mpmon.diagnosis.libraries.torch_data import LOADER_PROCESS
from mpmon.diagnosis.roles import WORKERS
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import Gpu, GpuProcess, Process

TOPIC = "gpu-held"

NOTABLE_BYTES = 256 << 20
"""Memory held by processes outside the job is reported from this size on."""

UNLISTED_BYTES = 1 << 30
"""Memory in use that no living listed process accounts for is held by another process from this size on: driver and rounding
take less.
"""

GONE_S = 7.0
"""Seconds after its parent's end by which a DataLoader worker has ended by itself (torch/utils/data/_utils/worker.py checks
every 5 s), and the driver has freed the parent's memory.
"""

MOST_LINES = 6

_WORK_FOR_OTHERS = WORKERS | {"process"}
"""Kinds that can be orphans: a rank that was started from a shell which has ended is none."""


class _Orphan(msgspec.Struct, frozen=True, gc=False):
    """A process of the job that worked for another one, which has ended."""

    process: Process
    parent: int | None
    """Pid of the ended process, if mpmon saw it."""
    rows: tuple[GpuProcess, ...]
    """The contexts that the driver attributes to the orphan."""
    devices: tuple[str, ...]
    """Device files it inherited, if it is not listed itself: `/dev/nvidia0`."""


def remarks(job: JobState) -> Iterator[Remark]:
    """One remark on leftover processes of the job, one on processes outside the job."""
    if not job.gpus.seen:
        return
    alone = [row for row in job.snapshot.processes if row.ppid not in job.processes]
    orphans = [orphan for row in alone if (orphan := _orphan(job, row))]
    unowned = [gpu for gpu in job.gpus.fresh if _unowned(job, gpu) and any(_has(job, row, gpu) for row in orphans)]
    if keeping := [row for row in orphans if row.rows or any(_has(job, row, gpu) for gpu in unowned)]:
        yield _left(job, keeping, unowned)
    explained = {gpu.uuid for gpu in unowned}
    if ghosts := [row for row in _ghosts(job) if row.gpu_uuid not in explained]:
        yield _listed_still(job, ghosts)
    if strangers := list(_strangers(job)):
        yield _foreign(job, strangers)


# What the job left behind


def _orphan(job: JobState, process: Process) -> _Orphan | None:
    """The process as an orphan, if it is alive although the process it worked for has ended; else `None`."""
    if process.ended or process.pid == job.snapshot.root_pid:
        return None
    if job.role(process.pid).kind not in _WORK_FOR_OTHERS:
        return None
    life = job.history.life(process)
    parent = life.first.ppid if life and life.first.ppid != process.ppid else None
    if job.now - _alone_since(job, parent) < GONE_S:
        return None
    rows = tuple(row for row in job.gpus.contexts if row.pid == process.pid)
    forked = process.forked or (process.forked is None and process.name == LOADER_PROCESS)
    devices = job.gpus.opened.get(process.pid, ()) if forked and not rows else ()
    return _Orphan(process, parent, rows, devices)


def _alone_since(job: JobState, parent: int | None) -> float:
    """When the parent ended, as far as mpmon saw."""
    return next((row.seen_at for row in reversed(job.snapshot.exits) if row.pid == parent), job.history.first_at)


def _has(job: JobState, orphan: _Orphan, gpu: Gpu) -> bool:
    """The orphan is not listed by the driver and has that device open."""
    return bool(orphan.devices) and job.gpus.has_open(orphan.process.pid, gpu)


def _unowned(job: JobState, gpu: Gpu) -> int:
    """Bytes in use that no living listed process accounts for; 0 if that is unknown or little."""
    ghosts = _ghosts(job)
    rows = [row for device, found in job.gpus.on.items() if device[0] == gpu.uuid for row in found if row not in ghosts]
    listed = [row.memory_bytes for row in rows if row.memory_bytes is not None]
    known = job.gpus.is_listed(gpu) and len(listed) == len(rows) and not job.gpus.is_divided(gpu.uuid)
    if gpu.memory_used_bytes is None or not known:
        return 0
    rest = gpu.memory_used_bytes - sum(listed)
    return rest if rest >= UNLISTED_BYTES else 0


def _left(job: JobState, orphans: list[_Orphan], unowned: list[Gpu]) -> Remark:
    pids = tuple(orphan.process.pid for orphan in orphans)
    uuids = [row.gpu_uuid for orphan in orphans for row in orphan.rows] + [gpu.uuid for gpu in unowned]
    have, keep, them = ("has", "keeps", "it") if len(orphans) == 1 else ("have", "keep", "them")
    names = several([f"{job.full_name(pid)}" for pid in pids])
    return Remark(
        topic=TOPIC, pids=pids, gpu_uuids=tuple(dict.fromkeys(uuids)),
        summary=f"{names} {have} outlived the process that started {them} and {keep} memory of {_where(job, uuids)}",
        evidence=(
            *(_line(job, orphan) for orphan in orphans[:MOST_LINES]),
            *(f"{size(_unowned(job, gpu))} of GPU {gpu.index} belong to no living process" for gpu in unowned),
        ),
        advice=(f"Nobody waits for {them} any more: kill {' '.join(map(str, pids))}, and kill -9 if that fails.",),
    )  # fmt: skip


def _line(job: JobState, orphan: _Orphan) -> str:
    """The evidence line of an orphan: its parent, and the memory it holds."""
    pid, parent = orphan.process.pid, orphan.parent
    rank = (orphan.process.environment or {}).get("RANK")
    whose = f"of rank {rank}" if rank else "of its parent"
    gone = f"pid {pid}: {f'pid {parent}, ' if parent else ''}the process {whose}, has ended"
    if orphan.rows:
        return f"{gone}; it has {_amounts(job, orphan.rows)}"
    before = job.gpus.last_use(parent) if parent else ()
    had = f" with {_amounts(job, before)}" if before else ""
    return f"{gone}{had}; it was forked, and has {several(list(orphan.devices))} open"


def _ghosts(job: JobState) -> list[GpuProcess]:
    """Contexts of processes of the job that ended a while before the driver was asked.

    An unknown pid may be of another pid namespace, unless it had that context while it was seen alive.
    """
    ended = {row.pid: row.seen_at for row in job.snapshot.exits if row.pid not in job.processes}
    late = {gpu.uuid: gpu.read_at - GONE_S for gpu in job.gpus.fresh}
    return [
        row for row in job.snapshot.gpu_processes
        if row.pid in ended and row.name is None and late.get(row.gpu_uuid, 0.0) >= ended[row.pid]
        and any(device_of(before) == device_of(row) for before in job.gpus.last_use(row.pid))
    ]  # fmt: skip


def _listed_still(job: JobState, ghosts: list[GpuProcess]) -> Remark:
    pids = tuple(dict.fromkeys(row.pid for row in ghosts))
    uuids = [row.gpu_uuid for row in ghosts]
    return Remark(
        topic=TOPIC, pids=pids, gpu_uuids=tuple(dict.fromkeys(uuids)),
        summary=f"the driver still counts memory of {_where(job, uuids)} for pid {several([str(pid) for pid in pids])} of "
        f"this job, which {'has' if len(pids) == 1 else 'have'} ended",
        evidence=tuple(f"pid {row.pid}: {_amounts(job, [row])}" for row in ghosts[:MOST_LINES]),
        advice=("Check which processes still have the device open: fuser -v /dev/nvidia*.",),
    )  # fmt: skip


# Strangers


def _strangers(job: JobState) -> Iterator[tuple[GpuProcess, tuple[int, ...]]]:
    """Processes outside of the job with memory where a head of the job is at home, and these heads."""
    ended = {row.pid for row in job.snapshot.exits}
    for row in job.gpus.strangers:
        heads = job.gpus.owners.get(device_of(row), ())
        notable = row.memory_bytes is not None and row.memory_bytes >= NOTABLE_BYTES
        computes = is_named(row) and row.kinds != ("graphics",) and row.pid not in ended
        if heads and notable and computes:
            yield row, heads


def _foreign(job: JobState, found: list[tuple[GpuProcess, tuple[int, ...]]]) -> Remark:
    rows = [row for row, _ in found]
    pids = tuple(dict.fromkeys(row.pid for row in rows))
    heads = list(dict.fromkeys(head for _, owners in found for head in owners))
    names = {row.pid: f"pid {row.pid}{f' ({row.name})' if row.name else ''}" for row in rows}
    have, use = "holds" if len(pids) == 1 else "hold", "uses" if len(heads) == 1 else "use"
    return Remark(
        topic=TOPIC, pids=pids, gpu_uuids=tuple(dict.fromkeys(row.gpu_uuid for row in rows)),
        summary=f"{several(list(names.values()))}, not under pid {job.snapshot.root_pid}, {have} memory of "
        f"{_where(job, [row.gpu_uuid for row in rows])}, which {job.gpus.who(heads)} {use}",
        evidence=tuple(f"{names[row.pid]}: {_amounts(job, [row])}" for row in rows[:MOST_LINES]),
        advice=(
            f"Check whose they are before you signal them: ps -o pid,ppid,user,lstart,args -p {','.join(map(str, pids))}.",
            "Leftovers of your own earlier runs may be killed.",
        ),
    )  # fmt: skip


def _where(job: JobState, uuids: list[str]) -> str:
    gpus = [gpu for uuid in dict.fromkeys(uuids) if (gpu := job.gpus.by_uuid.get(uuid))]
    return several([f"GPU {gpu.index}" for gpu in gpus]) or "a GPU"


def _amounts(job: JobState, rows: Iterable[GpuProcess]) -> str:
    return several([
        f"{size(row.memory_bytes) if row.memory_bytes is not None else 'memory'} on {job.gpus.name(device_of(row))}"
        for row in rows
    ])  # fmt: skip
