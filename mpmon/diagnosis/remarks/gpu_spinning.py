"""A GPU looks busy but does no work: its kernels only wait.

What it looks like: nvidia-smi shows 100 % for ranks that have not moved for minutes, at a fraction of the power they drew
before.
Why: utilization says that a kernel ran, not that it did anything.  An NCCL collective is a kernel that spins until every
rank has joined it; a rank that never does leaves all others busy forever.
If the GPUs of all ranks spin, no rank is elsewhere: the ranks may be in different collectives.  Or all of them run something
long that uses only a small part of a GPU, such as eigenvalues of large matrices.  Both look the same from outside, so this is
not a verdict.  Collective sequence numbers tell them apart (`mpmon explain flight-recorder`): if these show that ranks have
waited for each other for a minute or more, it is a hang.
What to do: look for the rank that is elsewhere: its GPU is idle, or it is at a different line; its peers wait as expected.
Judge progress by power, not by utilization.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.gpus.spins import Spin, all_spin
from mpmon.diagnosis.humanize import age, between
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.stuck.stuck_set import doing
from mpmon.diagnosis.thresholds import GPU_STANDS_LONG_S, GPU_WORKS_PERCENT

TOPIC = "gpu-spinning"

_KERNEL = (
    "Utilization only says that a kernel is there; one of NCCL spins until the last rank has joined the collective."
)
_ELSEWHERE = "Look for the rank whose GPU is idle, or that is at a different line."
_CONFIRM = (
    "Only collective sequence numbers show whether the ranks wait in different collectives: --flight-recorder SOURCE, "
    "or --nccl-ras "
    "(mpmon explain flight-recorder)."
)


def of_all(ranks: Collection[int], remarks: Iterable[Remark], now: float) -> bool:
    """One of these says that the GPUs of all ranks have spun for long."""
    found = [
        row for row in remarks if row.topic == TOPIC and row.since is not None and now - row.since >= GPU_STANDS_LONG_S
    ]
    return len(ranks) > 1 and any(set(ranks) <= set(row.pids) for row in found)


def remarks(job: JobState) -> Iterator[Remark]:
    """One for all devices that spin."""
    spins = job.spins
    if not spins:
        return
    heads = list(dict.fromkeys(head for spin in spins for head in spin.heads))
    everybody, since = all_spin(job, spins), max(spin.since for spin in spins)
    yield Remark(
        topic=TOPIC, pids=tuple(heads), gpu_uuids=tuple(spin.gpu.uuid for spin in spins), since=since,
        summary=_everybody(job, spins, since) if everybody else _some(job, spins, heads),
        evidence=(*(_words(job, spin) for spin in spins), *_others(job, heads)),
        advice=(_KERNEL, _CONFIRM if everybody else _ELSEWHERE),
    )  # fmt: skip


def _some(job: JobState, spins: Sequence[Spin], heads: list[int]) -> str:
    stand, seem = (
        ("makes no progress", "its GPU only spins") if len(heads) == 1 else ("make no progress", "their GPUs only spin")
    )
    return f"{job.gpus.who(heads)} {stand}, and {seem}: {_load(spins)}{_reserve(spins)}"


def _everybody(job: JobState, spins: Sequence[Spin], since: float) -> str:
    return (
        f"all {len(job.gpus.ranks)} ranks have waited for their GPUs for {age(job.now - since)} while the GPUs do "
        f"little work ({_load(spins)}): perhaps in collectives that some rank never joined"
    )


def _load(spins: Sequence[Spin]) -> str:
    watts = sorted(spin.gpu.power_watts or 0.0 for spin in spins)
    percents = sorted(spin.gpu.utilization_percent or 0.0 for spin in spins)
    share = between(f"{percents[0]:.0f} %", f"{percents[-1]:.0f} %")
    return f"{share} busy at {between(f'{watts[0]:.0f} W', f'{watts[-1]:.0f} W')}"


def _reserve(spins: Sequence[Spin]) -> str:
    seen = any(spin.level is not None for spin in spins)
    return "" if seen else ", as far as known: the device was never seen working"


def _words(job: JobState, spin: Spin) -> str:
    gpu = spin.gpu
    limit = f" of {gpu.power_limit_watts:.0f} W" if gpu.power_limit_watts else ""
    before = (
        f"{spin.level:.0f} W while working" if spin.level is not None
        else f"its memory busy {gpu.memory_utilization_percent or 0:.0f} %"
    )  # fmt: skip
    what = doing(job, (spin.heads[0], spin.heads[0]))
    return (
        f"GPU {gpu.index}: {gpu.utilization_percent or 0:.0f} % at {gpu.power_watts or 0:.0f} W{limit}, {before}; "
        f"{job.gpus.who(spin.heads)}: {what}, for {age(job.now - spin.since)}"
    )


def _others(job: JobState, heads: list[int]) -> Iterator[str]:
    """Ranks whose device does not spin, and shows it."""
    for head in sorted(job.gpus.ranks - set(heads)):
        device = job.gpus.own.get(head)
        gpu = next((gpu for gpu in job.gpus.fresh if device and gpu.uuid == device[0]), None)
        if gpu and gpu.utilization_percent is not None and gpu.utilization_percent < GPU_WORKS_PERCENT:
            yield (
                f"{job.gpus.who([head])} is not among them: GPU {gpu.index} is {gpu.utilization_percent:.0f} % busy, "
                f"and the rank is {doing(job, (head, head))}"
            )
