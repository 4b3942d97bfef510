"""A GPU has little to do, because its rank waits for batches most of the time: the loader is the bottleneck.

What it looks like: utilization is low or goes up and down, and nearly every sample finds the rank's main thread in the
DataLoader.
Why: the workers together make fewer batches a second than the GPU takes: too few workers, too few CPUs, slow storage, an
expensive transform; or there are no workers, and the rank loads its own data.
What to do: more workers as long as there are CPUs (num_workers, persistent_workers=True, a larger prefetch_factor); beyond
that, cheaper items: decode and resize ahead of time, larger files, transforms on the GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean

import msgspec

from mpmon.diagnosis.advice.practices import available_cpus
from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.humanize import age, between, several
from mpmon.diagnosis.libraries.torch_data import LOADER_WORKER
from mpmon.diagnosis.progress.motion import Motion
from mpmon.diagnosis.stacks.frames import has
from mpmon.diagnosis.stacks.waits import Wait
from mpmon.diagnosis.state.history import Sample
from mpmon.diagnosis.state.job_state import JobState
from mpmon.diagnosis.stuck.stuck_set import doing

TOPIC = "gpu-starved"

LOW_PERCENT = 50.0
"""Mean utilization below which a device has little to do."""

MOST = 2 / 3
"""Minimum share of samples that find the rank waiting for a batch."""

LOOKS, SPAN_S, BACK_S = 5, 8.0, 300.0
"""Minimum number of samples, the minimum time they span, and their maximum age; times in seconds."""

_FETCHES = ("torch/utils/data/_utils/fetch.py", ("fetch",))
"""The function in which a DataLoader without workers makes a batch, in the rank's own thread."""


class _Starved(msgspec.Struct, frozen=True, gc=False):
    """A head that waits for its loader."""

    head: int
    percent: float
    """Mean utilization of its device meanwhile."""
    waits: int
    samples: int
    seconds: float
    alone: bool
    """The rank loads its data itself."""


def remarks(job: JobState) -> Iterator[Remark]:
    """One remark for all heads that starve."""
    found = [starved for head in job.gpus.own if (starved := _starved(job, head))]
    if not found:
        return
    heads = [starved.head for starved in found]
    percents = sorted(starved.percent for starved in found)
    yield Remark(
        topic=TOPIC, pids=tuple(heads), gpu_uuids=tuple(dict.fromkeys(job.gpus.own[head][0] for head in heads)),
        summary=f"{job.gpus.who(heads)} {'waits' if len(heads) == 1 else 'wait'} for batches most of the time, and "
        f"{'its GPU is' if len(heads) == 1 else 'their GPUs are'} only "
        f"{between(f'{percents[0]:.0f} %', f'{percents[-1]:.0f} %')} busy: the loader is the bottleneck",
        evidence=tuple(line for starved in found[:4] for line in _evidence(job, starved)),
        advice=tuple(_advice(job, found)),
    )  # fmt: skip


def _starved(job: JobState, head: int) -> _Starved | None:
    """The head, if its main thread makes progress but most samples find it waiting for the loader, while its device has
    little to do; else `None`.
    """
    past = job.thread_history((head, head))
    if past is None or len(past.samples) < LOOKS or job.motion((head, head)) is not Motion.PROGRESSING:
        return None
    samples = [sample for sample in past.samples if sample.stack and sample.at >= job.now - BACK_S]
    if len(samples) < LOOKS or samples[-1].at - samples[0].at < SPAN_S:
        return None
    loading = job.memory.same(("loading", head), _loading, past.samples)
    alone = sum(sample.at in loading for sample in samples)
    waits = alone or sum(map(_waits, samples))
    if waits < MOST * len(samples):
        return None
    read = job.gpus.readings(job.gpus.own[head][0], samples[0].at, job.now)
    percents = [gpu.utilization_percent for gpu in read if gpu.utilization_percent is not None]
    if len(percents) < LOOKS or mean(percents) >= LOW_PERCENT:
        return None
    return _Starved(head, mean(percents), waits, len(samples), samples[-1].at - samples[0].at, alone=bool(alone))


def _waits(sample: Sample) -> bool:
    return sample.wait_state.kind is Wait.LOADER_BATCH


def _loading(samples: tuple[Sample, ...]) -> frozenset[float]:
    """The moments of the samples that found the rank making a batch itself."""
    return frozenset(sample.at for sample in samples if has(sample.stack, *_FETCHES))


def _workers(job: JobState, head: int) -> list[int]:
    pids = job.clients.get(head, ())
    return [pid for pid in pids if job.role(pid).kind == LOADER_WORKER and job.is_alive(pid)]


def _evidence(job: JobState, starved: _Starved) -> Iterator[str]:
    gpu = job.gpus.name(job.gpus.own[starved.head])
    does = "was making a batch itself" if starved.alone else "was waiting for the next batch"
    yield (
        f"{job.gpus.who([starved.head])} {does} in {starved.waits} of {starved.samples} samples over {age(starved.seconds)}; "
        f"{gpu} was {starved.percent:.0f} % busy"
    )
    workers = _workers(job, starved.head)
    busy = [pid for pid in workers if not job.wait_state((pid, pid)).idle]
    if workers:
        what = several(list(dict.fromkeys(doing(job, (pid, pid)) for pid in busy)), most=3)
        yield f"it has {len(workers)} DataLoader workers, {len(busy)} of them busy{f': {what}' if what else ''}"


def _advice(job: JobState, found: list[_Starved]) -> Iterator[str]:
    cpus, workers = available_cpus(job), sum(len(_workers(job, starved.head)) for starved in found)
    if any(starved.alone for starved in found):
        yield "Give the DataLoader workers: num_workers=4 or so, persistent_workers=True."
    elif workers < cpus:
        yield f"Use more workers ({workers} now, {cpus} CPUs): num_workers, persistent_workers=True, prefetch_factor."
    else:
        yield f"More workers will not help: {workers} share {cpus} CPU{'s' if cpus > 1 else ''}: make items cheaper to load."
    yield "Decode and resize ahead of time, read few large files instead of many small ones, transform on the GPU."
