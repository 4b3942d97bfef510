"""The GPU memory of one rank keeps growing, and that of its peers does not.

What it looks like: for minutes one rank takes more and more memory; some time later only that rank runs out of it.
Why: tensors that this rank keeps: losses or outputs appended to a list with their graph, a cache by shape, work that only
rank 0 does (logging, validation, a checkpoint's copy).
What to do: look for what only this rank does; keep numbers (loss.item(), .detach()) instead of tensors; see who allocated
with torch.cuda.memory._record_memory_history and _dump_snapshot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

from mpmon.diagnosis.findings import Remark, TrendPoint
from mpmon.diagnosis.gpus import Device, device_of
from mpmon.diagnosis.humanize import age, amount, between, size
from mpmon.diagnosis.state.job_state import JobState

TOPIC = "gpu-memory-grows"

SPAN_S = 120.0
"""Growth over less time may be start-up: torch's caches fill in the first steps."""

SAMPLES, FEWEST_SAMPLES = 24, 12
"""Number of rounds examined, evenly spaced over the time: at most, at least."""

GROWTH_BYTES = 300 << 20
"""Minimum growth, in total and in excess of the peers' median growth."""

TIMES_PEERS = 3
"""Growth must also be this many times the peers' median growth."""

FALLS = 0.1
"""Share of the growth that may be lost again on the way."""

EACH_THIRD = 0.15
"""Minimum share of the growth in each third of the time, so that the growth is steady and continues."""


def remarks(job: JobState) -> Iterator[Remark]:
    """One remark for each head whose memory grows."""
    if len(job.gpus.own) < 2:
        return
    moments = _sampled(job.history.trend)
    if not moments or not _grew(job, moments[0], moments[-1]):
        return
    held = [_held(moment) for moment in moments]
    sizes = {
        head: [each[head, device] for each in held]
        for head, device in job.gpus.own.items()
        if all((head, device) in each for each in held)
    }
    for head, values in sizes.items():
        peers = sorted(other[-1] - other[0] for pid, other in sizes.items() if pid != head)
        if peers and _is_steady(values) and _is_beyond(values[-1] - values[0], peers):
            yield _remark(job, head, values, peers, moments[-1].taken_at - moments[0].taken_at)


def _sampled(trend: Sequence[TrendPoint]) -> list[TrendPoint]:
    """Evenly spaced moments of the remembered time, including the last one; empty if that time is too short."""
    with_rows = [moment for moment in trend if moment.gpu_processes]
    if len(with_rows) < FEWEST_SAMPLES or with_rows[-1].taken_at - with_rows[0].taken_at < SPAN_S:
        return []
    step = (len(with_rows) - 1) / (min(SAMPLES, len(with_rows)) - 1)
    return [with_rows[round(at * step)] for at in range(min(SAMPLES, len(with_rows)))]


def _grew(job: JobState, first: TrendPoint, last: TrendPoint) -> bool:
    """Some head holds much more than at the beginning; if not, the moments between need not be examined."""
    before, now = _held(first), _held(last)
    return any(now.get(own, 0) - before.get(own, 0) >= GROWTH_BYTES for own in job.gpus.own.items())


def _held(moment: TrendPoint) -> dict[tuple[int, Device], int]:
    """Bytes by pid and device, where they are known."""
    found: dict[tuple[int, Device], int] = defaultdict(int)
    for row in moment.gpu_processes:
        if row.memory_bytes is not None:
            found[row.pid, device_of(row)] += row.memory_bytes
    return found


def _is_steady(values: Sequence[int]) -> bool:
    growth = values[-1] - values[0]
    falls = sum(max(0, before - after) for before, after in pairwise(values))
    third = len(values) // 3
    parts = (values[third] - values[0], values[2 * third] - values[third], values[-1] - values[2 * third])
    return growth >= GROWTH_BYTES and falls <= FALLS * growth and min(parts) >= EACH_THIRD * growth


def _is_beyond(growth: int, peers: Sequence[int]) -> bool:
    usual = max(0.0, median(peers))
    return growth - usual >= GROWTH_BYTES and growth >= TIMES_PEERS * usual


def _remark(job: JobState, head: int, values: Sequence[int], peers: Sequence[int], seconds: float) -> Remark:
    device = job.gpus.own[head]
    name = job.gpus.name(device)
    return Remark(
        topic=TOPIC, pids=(head,), gpu_uuids=(device[0],),
        summary=f"the memory of {job.gpus.who([head])} on {name} has grown by {size(values[-1] - values[0])} in "
        f"{age(seconds)}, steadily, and its peers' by {between(_grown(peers[0]), _grown(peers[-1]))}",
        evidence=(
            f"pid {head}: from {size(values[0])} to {size(values[-1])} by the driver's count, torch's cache included",
            *_full_in(job, device, (values[-1] - values[0]) / seconds),
        ),
        advice=(
            "Look for tensors that only this rank keeps: losses or outputs in lists (use .item()), caches, logging.",
            "torch.cuda.memory._record_memory_history(), later _dump_snapshot('memory.pickle'), shows which code allocated what.",
        ),
    )  # fmt: skip


def _grown(count: int) -> str:
    return size(count) if count > 0 else "nothing"


def _full_in(job: JobState, device: Device, rate: float) -> Iterator[str]:
    """When the device is full if it goes on like this."""
    gpu = job.gpus.by_uuid.get(device[0])
    if device[1] is None and gpu and gpu.memory_total_bytes is not None and gpu.memory_used_bytes is not None:
        free = gpu.memory_total_bytes - gpu.memory_used_bytes - (gpu.memory_reserved_bytes or 0)
        yield f"GPU {gpu.index} has {size(max(0, free))} left, enough for {amount(max(0, free) / rate)} at this rate"
