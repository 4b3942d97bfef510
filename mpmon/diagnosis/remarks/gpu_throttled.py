"""A GPU is slowed down by heat or by its hardware, and so is the rank that uses it.

What it looks like: one rank is slower than its peers in every step, and all others wait for it in each collective; the clock
of its GPU is far below the maximum.
Why: cooling, a power supply that limits the device, a device that protects itself.  Clocks lowered only
to keep within the power limit are normal and not reported here.
What to do: check temperature, fans and dust, power cables and neighbouring machines; leave the device out until it is fixed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import takewhile

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.humanize import between, several
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import SLOWDOWNS, Gpu

TOPIC = "gpu-throttled"

READINGS = 5
"""This many last readings must all show it."""

BACK_S = 60.0

WORKS_PERCENT = 20.0
"""Minimum utilization of a device at work: an idle device may be as slow as it likes."""

FULL_CLOCK = 0.95
"""Share of the maximum clock above which a device is not slow."""

_ADVICE = (
    "Check the cooling (temperature, fans, neighbouring load) and the power supply of that machine.",
    "In synchronous training the slowest GPU sets the pace of all.",
)


def remarks(job: JobState) -> Iterator[Remark]:
    """One for all devices with the same reasons."""
    alike: dict[tuple[str, ...], list[Gpu]] = defaultdict(list)
    for gpu in job.gpus.fresh:
        if (reasons := _slowdowns(gpu)) and _lasts(job, gpu) and job.gpus.users(gpu.uuid):
            alike[reasons].append(gpu)
    for reasons, gpus in alike.items():
        heads = list(dict.fromkeys(head for gpu in gpus for head in job.gpus.users(gpu.uuid)))
        yield Remark(
            topic=TOPIC, pids=tuple(heads), gpu_uuids=tuple(gpu.uuid for gpu in gpus),
            since=min(_since(job, gpu) for gpu in gpus),
            summary=f"{several([f'GPU {gpu.index}' for gpu in gpus])}, which {job.gpus.who(heads)} "
            f"{'uses' if len(heads) == 1 else 'use'}, {'is' if len(gpus) == 1 else 'are'} slowed down: {', '.join(reasons)}",
            evidence=(*map(_words, gpus), *_peers(job, gpus)),
            advice=_ADVICE,
        )  # fmt: skip


def _slowdowns(gpu: Gpu) -> tuple[str, ...]:
    reasons = gpu.clock_event_reasons or ()
    return tuple(reason for reason in reasons if any(word in reason.lower() for word in SLOWDOWNS))


def _is_slow(gpu: Gpu) -> bool:
    """The device is at work, but below its full clock."""
    if gpu.utilization_percent is None or gpu.utilization_percent < WORKS_PERCENT:
        return False
    known = gpu.sm_clock_mhz is not None and gpu.sm_clock_max_mhz is not None
    return not known or (gpu.sm_clock_mhz or 0) < FULL_CLOCK * (gpu.sm_clock_max_mhz or 0)


def _lasts(job: JobState, gpu: Gpu) -> bool:
    last = job.gpus.latest(gpu.uuid, READINGS, job.now - BACK_S)
    return len(last) == READINGS and all(_slowdowns(row) and _is_slow(row) for row in last)


def _since(job: JobState, gpu: Gpu) -> float:
    streak = takewhile(_slowdowns, reversed(job.gpus.readings(gpu.uuid, 0.0, job.now)))
    return min((row.read_at for row in streak), default=job.now)


def _words(gpu: Gpu) -> str:
    clock = f"{gpu.sm_clock_mhz} MHz" if gpu.sm_clock_mhz is not None else "unknown clock"
    most = f" of {gpu.sm_clock_max_mhz} MHz" if gpu.sm_clock_max_mhz is not None else ""
    heat = f", {gpu.temperature_celsius:.0f} °C" if gpu.temperature_celsius is not None else ""
    return f"GPU {gpu.index}: {clock}{most}{heat}"


def _peers(job: JobState, slow: list[Gpu]) -> Iterator[str]:
    """The clocks of the job's other devices that work."""
    others = [gpu for gpu in job.gpus.fresh if gpu not in slow and job.gpus.users(gpu.uuid) and gpu.sm_clock_mhz]
    clocks = sorted(gpu.sm_clock_mhz or 0 for gpu in others if (gpu.utilization_percent or 0.0) >= WORKS_PERCENT)
    if clocks:
        yield f"the other GPUs of the job run at {between(f'{clocks[0]} MHz', f'{clocks[-1]} MHz')}"
