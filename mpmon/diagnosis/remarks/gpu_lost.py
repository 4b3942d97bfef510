"""A GPU is lost, needs a reset, has reported errors, or a driver call on it does not return.

What it looks like: ranks are in CUDA calls or in collectives forever, nvidia-smi hangs or shows ERR!, and the kernel log has
lines with `NVRM: Xid`.
Why: a device that fell off the bus, broken memory, a driver that waits for the device; or, with XID 13, 31 and 43, a CUDA
kernel of the program that made an illegal memory access.
What to do: look up the XID in the kernel log; end the job, and reset the device or reboot the machine as the driver asks; for
an error of the program, run it with CUDA_LAUNCH_BLOCKING=1 or under compute-sanitizer.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.humanize import age
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import Gpu, Xid

TOPIC = "gpu-lost"

BLOCKED_AFTER_S = 5.0
"""A driver call may take this long: waking a device without persistence takes 1.5 s."""

XIDS = {
    13: "graphics engine exception",
    31: "memory page fault",
    43: "the program's channel was stopped",
    45: "work was removed after an error",
    48: "double bit error in its memory",
    62: "halt of its internal microcontroller",
    63: "a row of its memory was remapped",
    64: "a row of its memory could not be remapped",
    74: "NVLink error",
    79: "it has fallen off the bus",
    92: "many single bit errors in its memory",
    94: "contained memory error",
    95: "uncontained memory error",
    119: "its system processor does not answer",
    120: "error of its system processor",
}
"""NVIDIA's "Xid Errors"."""

OF_PROGRAMS = frozenset({13, 31, 43, 45})
"""XIDs that are mostly caused by an error of the program itself."""

BROKEN = ("is lost", "requires a reset", "cables", "interrupts", "infoROM", "does not explain")
"""Words in the driver's messages about faults of the device itself, as opposed to missing permission or driver."""

_LOG = "Read the kernel's log: dmesg -T | grep -i 'NVRM: Xid'."
_RESET = (
    "End the job before the device is reset (nvidia-smi --gpu-reset -i {index}); a lost one usually needs a reboot."
)
_PROGRAM = (
    "This is usually a bug of the program: run it with CUDA_LAUNCH_BLOCKING=1, or under compute-sanitizer, to see which "
    "kernel it was."
)


def remarks(job: JobState) -> Iterator[Remark]:
    """One for each device that is in trouble."""
    for gpu in job.snapshot.gpus:
        facts = [*_blocked(job, gpu), *_unreadable(gpu), *_errors(job, gpu)]
        if facts and _matters(job, gpu):
            users = job.gpus.users(gpu.uuid)
            whose = [f"{job.gpus.who(users)} {'has' if len(users) == 1 else 'have'} a context on it"] if users else []
            yield Remark(
                topic=TOPIC, summary=f"GPU {gpu.index} ({gpu.name}): {facts[0]}", pids=users, gpu_uuids=(gpu.uuid,),
                since=_since(gpu), evidence=(*facts[1:], *whose), advice=tuple(_advice(gpu)),
            )  # fmt: skip


def _blocked(job: JobState, gpu: Gpu) -> Iterator[str]:
    if gpu.blocked_since is not None and job.now - gpu.blocked_since >= BLOCKED_AFTER_S:
        yield f"a driver call has not returned for {age(job.now - gpu.blocked_since)}"
        if gpu.problem:
            yield gpu.problem


def _unreadable(gpu: Gpu) -> Iterator[str]:
    if gpu.problem and gpu.blocked_since is None and any(word in gpu.problem for word in BROKEN):
        yield gpu.problem


def _errors(job: JobState, gpu: Gpu) -> Iterator[str]:
    """What the driver reports of a device that it can read."""
    if gpu.recovery_action not in (None, "none"):
        yield f"the driver requests: {gpu.recovery_action}"
    for number in sorted({xid.number for xid in gpu.xids}):
        words = f" ({XIDS[number]})" if number in XIDS else ""
        yield f"XID {number}{words}, {age(job.now - _last(gpu, number).seen_at)} ago"
    if gpu.ecc_uncorrected:
        known = [row.ecc_uncorrected for row in job.gpus.readings(gpu.uuid, 0.0, job.now)]
        before = next((count for count in known if count is not None), gpu.ecc_uncorrected)
        new = gpu.ecc_uncorrected - before
        when = f"{new} of them while mpmon watched" if new > 0 else "none of them since mpmon started"
        yield f"{gpu.ecc_uncorrected} uncorrected memory errors since the driver was loaded, {when}"


def _matters(job: JobState, gpu: Gpu) -> bool:
    """The job uses or used the device, or has it open; for a device that cannot be read: the job uses any GPU."""
    opened = any(job.gpus.has_open(pid, gpu) for pid in job.gpus.opened)
    return gpu.uuid in job.gpus.used or opened or bool(gpu.problem and (job.gpus.used or job.gpus.opened))


def _last(gpu: Gpu, number: int) -> Xid:
    return max((xid for xid in gpu.xids if xid.number == number), key=lambda xid: xid.seen_at)


def _since(gpu: Gpu) -> float | None:
    if gpu.blocked_since is not None:
        return gpu.blocked_since
    return min((xid.seen_at for xid in gpu.xids), default=None)


def _advice(gpu: Gpu) -> Iterator[str]:
    numbers = {xid.number for xid in gpu.xids}
    if numbers and numbers <= OF_PROGRAMS:
        yield _PROGRAM
    yield _LOG
    if gpu.problem or gpu.recovery_action not in (None, "none"):
        yield _RESET.format(index=gpu.index)
