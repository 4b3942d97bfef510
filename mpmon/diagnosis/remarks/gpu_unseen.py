"""Processes of the job have a GPU open that is in use, but the driver lists no process on it.

What it looks like: the device is in use and ranks have /dev/nvidia* open, but no process at all is listed on that GPU.
Why: in a container, some driver versions leave out processes that are not visible from there, others report host pids; or the
GPU is used by a process that is not visible.
What to do: run mpmon on the host, or give the container the host's pids (docker run --pid=host, hostPID: true).
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.humanize import several
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import Gpu

TOPIC = "gpu-unseen"

USED_BYTES = 1 << 30
"""A device with this much memory in use has a user."""


def remarks(job: JobState) -> Iterator[Remark]:
    """One remark for the whole job, about the devices that it has open."""
    if job.gpus.contexts or _is_told(job):
        return
    used = [gpu for gpu in job.gpus.fresh if _is_used(job, gpu)]
    workers = [pid for pid in sorted(job.gpus.opened) if _works(job, pid)] if used else []
    empty = [gpu for gpu in used if any(job.gpus.has_open(pid, gpu) for pid in workers)]
    pids = [pid for pid in workers if any(job.gpus.has_open(pid, gpu) for gpu in empty)]
    if not pids:
        return
    file = next(f"/dev/nvidia{gpu.index}" for gpu in empty if job.gpus.has_open(pids[0], gpu))
    yield Remark(
        topic=TOPIC, pids=tuple(pids), gpu_uuids=tuple(gpu.uuid for gpu in empty),
        summary=f"{several([f'GPU {gpu.index}' for gpu in empty])} {'is' if len(empty) == 1 else 'are'} in use, but the driver "
        "lists no process there: which process of the job is on which GPU is not known",
        evidence=(f"{job.full_name(pids[0])} has {file} open (/proc/{pids[0]}/fd)",),
        advice=("Run mpmon on the host, or give the container the host's pids: docker run --pid=host, hostPID: true.",),
    )  # fmt: skip


def _works(job: JobState, pid: int) -> bool:
    """The process may use the devices it has open; a child of a dead rank merely inherited them."""
    at_home = job.is_alive(pid) and (pid == job.snapshot.root_pid or job.processes[pid].ppid in job.processes)
    return at_home and not job.role(pid).serves


def _is_used(job: JobState, gpu: Gpu) -> bool:
    """Much of the device's memory is in use, though the driver lists no process."""
    listed = any(device[0] == gpu.uuid for device in job.gpus.on)
    return (
        job.gpus.is_listed(gpu)
        and not listed
        and gpu.memory_used_bytes is not None
        and gpu.memory_used_bytes >= USED_BYTES
    )


def _is_told(job: JobState) -> bool:
    """The probe has reported this already: it notices when the driver reports pids of another namespace."""
    return any(row.name == "gpus" and "namespace" in (row.problem or "") for row in job.snapshot.probes)
