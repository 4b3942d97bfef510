"""GPUs and MIG instances as the panel lists them, one row each: numbers, who is on it, and what matters about it. Pure.

Numbers are rounded to what is shown, so that a row is equal to the one before unless its line would differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mpmon.diagnosis.gpus import device_of
from mpmon.diagnosis.gpus.shares import is_named
from mpmon.diagnosis.remarks import gpu_lost, gpu_spinning, gpu_throttled
from mpmon.model import SLOWDOWNS
from mpmon.tui import format as fmt
from mpmon.tui.describe.gpu_troubles import LIST, troubles
from mpmon.tui.line import Line, Span, joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mpmon.diagnosis.gpus import Device
    from mpmon.model import Gpu, GpuProcess, MigInstance
    from mpmon.tui.scene import Scene

STALE_S, STALE_IN_TROUBLE_S = 10.0, 2.0
"""Values older than this are old: of a device that answers, and of one that does not."""

SELF_EVIDENT = frozenset({gpu_lost.TOPIC, gpu_throttled.TOPIC})
"""Topics of remarks that the row tells by itself."""

WORDS = {"gpu-not-own": "stray contexts"}
"""For topics that would not speak for themselves."""

HARMLESS_CLOCKS = frozenset({"idle", "application clocks", "display clocks", "sync boost"})
"""Reasons for low clocks that nobody need know."""


class GpuRow(NamedTuple):
    """One GPU or MIG instance."""

    uuid: str
    label: str
    """NVML's number, for an instance with that of the instance: `0:1`."""
    cuda: str = ""
    """The N of cuda:N, when all who use it call it so."""
    users: str = ""
    memory: str = fmt.UNKNOWN
    full: int | None = None
    """Percent of its memory that is used."""
    utilization: int | None = None
    sm: int | None = None
    """The sum over the processes of the job."""
    power: str = ""
    temperature: str = ""
    notes: Line = ()
    old: bool = False
    """The numbers are not of this moment."""
    spins: bool = False
    """Its utilization is no work."""
    trouble: bool = False
    """The notes are more important than the history."""
    pid: int | None = None
    """Whom selecting the row selects."""
    selected: bool = False
    """The selected process uses it."""
    histories: tuple[str, ...] = ()


def gpu_rows(scene: Scene, selected: int | None) -> list[GpuRow]:
    """Every GPU in the driver's order, each with its MIG instances below it."""
    chosen = place_of(scene, selected)
    rows: list[GpuRow] = []
    for gpu in sorted(scene.snapshot.gpus, key=lambda gpu: gpu.index):
        rows.append(_device(scene, gpu, chosen))
        rows += [_instance(scene, gpu, row, chosen) for row in scene.snapshot.mig_instances if row.gpu_uuid == gpu.uuid]
    return rows


def place_of(scene: Scene, pid: int | None) -> Device | None:
    """The device of a process, or of the nearest one it works for: that on which it has the most memory."""
    contexts = [row for rows in scene.gpu_users.values() for row in rows if is_named(row)]
    for at in scene.line_of(pid) if pid is not None else ():
        own = [row for row in contexts if row.pid == at]
        if own:
            return device_of(max(own, key=lambda row: row.memory_bytes or 0))
    return None


def _device(scene: Scene, gpu: Gpu, chosen: Device | None) -> GpuRow:
    place = (gpu.uuid, None, None)
    users = scene.gpu_users.get(place, ())
    trouble = [*troubles(scene, gpu)]
    old = _is_old(scene, gpu)
    notes = [*trouble, *_remarked(scene, gpu), *(_age_of_values(scene, gpu) if old else _clocks(gpu))]
    notes += [*_strangers(scene, users), *([("MIG", "dim")] if gpu.mig else [])]
    used = _used(scene, users, gpu.uuid)
    return used._replace(
        label=str(gpu.index),
        users=used.users or (fmt.UNKNOWN if LIST in gpu.reasons else ""),
        memory=fmt.filling(gpu.memory_used_bytes, gpu.memory_total_bytes),
        full=_percent(gpu.memory_used_bytes, gpu.memory_total_bytes),
        utilization=_whole(gpu.utilization_percent),
        power=_power(gpu),
        temperature=fmt.percent(gpu.temperature_celsius),
        notes=joined(notes),
        old=old,
        spins=gpu_spinning.TOPIC in _topics(scene, gpu),
        trouble=bool(trouble),
        selected=chosen == place,
    )


def _instance(scene: Scene, gpu: Gpu, row: MigInstance, chosen: Device | None) -> GpuRow:
    place = (gpu.uuid, row.gpu_instance, row.compute_instance)
    users = scene.gpu_users.get(place, ())
    return _used(scene, users, row.uuid)._replace(
        label=_label(scene, gpu, row),
        memory=fmt.filling(row.memory_used_bytes, row.memory_total_bytes),
        full=_percent(row.memory_used_bytes, row.memory_total_bytes),
        notes=joined([(row.name, "dim"), *_strangers(scene, users)]),
        old=_is_old(scene, gpu),
        selected=chosen == place,
    )


def _label(scene: Scene, gpu: Gpu, row: MigInstance) -> str:
    """`0:1`; with the number of the compute instance where that is not the only one."""
    place = (row.gpu_uuid, row.gpu_instance)
    several = sum((part.gpu_uuid, part.gpu_instance) == place for part in scene.snapshot.mig_instances) > 1
    return f"{gpu.index}:{row.gpu_instance}" + (f":{row.compute_instance}" if several else "")


# Who is on it


def _used(scene: Scene, users: Sequence[GpuProcess], uuid: str) -> GpuRow:
    """What a row says of those who use the device."""
    own = [row for row in users if scene.is_of_job(row)]
    return GpuRow(
        uuid=uuid,
        label="",
        cuda=_cuda(scene, own),
        users=_names(scene, own),
        sm=_whole(fmt.total(row.sm_percent for row in own)),
        pid=own[0].pid if own else None,
    )


def _names(scene: Scene, own: Sequence[GpuProcess]) -> str:
    """`rank 3`, `rank 0–3,7`, or without ranks the roles."""
    ranks = sorted({rank for row in own if (rank := scene.rank_of(row.pid)) is not None})
    if ranks:
        return f"rank {fmt.ranges(ranks)}"
    return ", ".join(dict.fromkeys(scene.role(row.pid) for row in own))


def _cuda(scene: Scene, own: Sequence[GpuProcess]) -> str:
    numbers = {scene.ordinal(row).number for row in own}
    number = numbers.pop() if len(numbers) == 1 else None
    return "" if number is None else str(number)


def _strangers(scene: Scene, users: Sequence[GpuProcess]) -> Iterator[Span]:
    """`2 others 12G`: who is not of the job."""
    others = [row for row in users if not scene.is_of_job(row)]
    if others:
        memory = fmt.total(row.memory_bytes for row in others)
        yield (fmt.plural(len(others), "other") + ("" if memory is None else f" {fmt.size(memory)}"), "")


# What matters


def _remarked(scene: Scene, gpu: Gpu) -> Iterator[Span]:
    """The topics of remarks on this device; the page of the remarks says more."""
    for topic in _topics(scene, gpu):
        if topic not in SELF_EVIDENT:
            yield (WORDS.get(topic) or topic.removeprefix("gpu-").replace("-", " "), "warn")


def _topics(scene: Scene, gpu: Gpu) -> dict[str, None]:
    return dict.fromkeys(row.topic for row in scene.diagnosis.remarks if gpu.uuid in row.gpu_uuids)


def _clocks(gpu: Gpu) -> Iterator[Span]:
    """What holds the clocks down: to save the device, or as is normal for one that works."""
    for reason in gpu.clock_event_reasons or ():
        if any(word in reason for word in SLOWDOWNS):
            yield (reason, "warn")
        elif reason not in HARMLESS_CLOCKS:
            yield (reason, "dim")


def _is_old(scene: Scene, gpu: Gpu) -> bool:
    """The values are of another time than the rest of the screen."""
    in_trouble = gpu.problem is not None or gpu.blocked_since is not None
    return bool(gpu.read_at) and scene.now - gpu.read_at > (STALE_IN_TROUBLE_S if in_trouble else STALE_S)


def _age_of_values(scene: Scene, gpu: Gpu) -> Iterator[Span]:
    """How old they are, unless the blocked call tells it."""
    if gpu.blocked_since is None:
        yield (f"values {_age(scene, gpu.read_at)} old", "dim")


# Numbers


def _age(scene: Scene, moment: float) -> str:
    return fmt.age(scene.since(moment))


def _power(gpu: Gpu) -> str:
    """`612/700`."""
    if gpu.power_watts is None:
        return fmt.UNKNOWN
    limit = "" if gpu.power_limit_watts is None else f"/{gpu.power_limit_watts:.0f}"
    return f"{gpu.power_watts:.0f}{limit}"


def _percent(part: int | None, whole: int | None) -> int | None:
    return None if part is None or not whole else round(100 * part / whole)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
