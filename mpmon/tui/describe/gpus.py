"""The GPUs of one process: what it uses of each, how the device is, and why something is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpmon.tui import format as fmt
from mpmon.tui.describe.gpu_troubles import LIST, troubles
from mpmon.tui.describe.reasons import not_known
from mpmon.tui.line import Line, clip, indented, plain, wrap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpmon.model import Gpu, GpuProcess, MigInstance, Process
    from mpmon.tui.scene import Scene

PROBE = "gpus"
"""Name of its report."""

FIELDS = {
    "memory_used_bytes": "memory used",
    "memory_total_bytes": "memory",
    "utilization_percent": "utilization",
    "power_watts": "power",
    "power_limit_watts": "power limit",
    "temperature_celsius": "temperature",
    "sm_clock_mhz": "SM clock",
    "clock_event_reasons": "what holds the clocks down",
    "ecc_uncorrected": "ECC errors",
    "xids": "XIDs",
    "memory_bytes": "memory of the process",
    "sm_percent": "SM utilization of the process",
}
"""What this page shows, and the words for it when it is not known."""


def gpus(scene: Scene, process: Process, width: int) -> list[Line]:
    """Every device or MIG instance it is on; without one, why."""
    rows = scene.gpu_processes.get(process.pid, ())
    if not rows:
        return [line for reason in _why_none(scene) for line in wrap(reason, width, first="  ", then="  ", style="dim")]
    return [line for row in rows for line in _one(scene, row, width)]


def _why_none(scene: Scene) -> Iterator[str]:
    if not scene.snapshot.gpus:
        yield from filter(None, (scene.problem_of(PROBE),))
        return
    yield "none known to the driver"
    unread = {gpu.index: gpu.reasons[LIST] for gpu in scene.snapshot.gpus if LIST in gpu.reasons}
    yield from (f"who is on GPU {index} is not known: {reason}" for index, reason in unread.items())


def _one(scene: Scene, row: GpuProcess, width: int) -> list[Line]:
    device = next((gpu for gpu in scene.snapshot.gpus if gpu.uuid == row.gpu_uuid), None)
    if device is None:
        return [plain(f"  {row.gpu_uuid}, otherwise unknown", "dim")]
    part = next((p for p in scene.snapshot.mig_instances if _is_on(row, p)), None)
    facts = [_use(row, device, part), _device(device)]
    lines = [clip(_name(scene, row, device, part), width), *indented(facts, width)]
    trouble = [span for found in troubles(scene, device) for span in ((" · ", "dim"), found)]
    if trouble:
        lines.append(clip((("    ", ""), *trouble[1:]), width))
    return lines + indented(_unknown(scene, row, device), width, style="dim")


def _is_on(row: GpuProcess, part: MigInstance) -> bool:
    return (row.gpu_uuid, row.mig_instance, row.compute_instance) == (
        part.gpu_uuid,
        part.gpu_instance,
        part.compute_instance,
    )


def _name(scene: Scene, row: GpuProcess, device: Gpu, part: MigInstance | None) -> Line:
    """`GPU 3, cuda:0 · NVIDIA H100 80GB HBM3 · GPU-…`."""
    number = scene.ordinal(row).number
    cuda = f", cuda:{number} by its environment" if number is not None else ""
    instance = f", instance {row.mig_instance} ({part.name})" if part else ""
    uuid = part.uuid if part else device.uuid
    return ((f"  GPU {device.index}{instance}{cuda}", "bold"), (f" · {device.name} · {uuid}", "dim"))


def _use(row: GpuProcess, device: Gpu, part: MigInstance | None) -> str:
    """`memory 58G of 80G · SM 94 %, sampled 0.6 s before · compute`."""
    total = part.memory_total_bytes if part else device.memory_total_bytes
    sampled = "" if row.sample_age_s is None or row.sm_percent is None else f", sampled {row.sample_age_s:.1f} s before"
    facts = [
        f"memory {fmt.size(row.memory_bytes)} of {fmt.size(total)}",
        f"SM {fmt.percent(row.sm_percent)} %{sampled}",
        *row.kinds,
    ]
    return " · ".join(facts)


def _device(device: Gpu) -> str:
    """`the device: 93 % busy · 604 of 700 W · 54 °C · SM clock 1755 of 1980 MHz, held down by power cap`."""
    held = f", held down by {', '.join(device.clock_event_reasons)}" if device.clock_event_reasons else ""
    facts = [
        f"{fmt.percent(device.utilization_percent)} % busy",
        f"memory {fmt.size(device.memory_used_bytes)} of {fmt.size(device.memory_total_bytes)}",
        f"{fmt.percent(device.power_watts)} of {fmt.percent(device.power_limit_watts)} W",
        f"{fmt.percent(device.temperature_celsius)} °C",
        f"SM clock {fmt.number(device.sm_clock_mhz)} of {fmt.number(device.sm_clock_max_mhz)} MHz{held}",
    ]
    return "the device: " + " · ".join(facts)


def _unknown(scene: Scene, row: GpuProcess, device: Gpu) -> Iterator[str]:
    """Why something is not known, one line a reason; then why the environment does not tell the number."""
    if device.problem:
        yield device.problem
    yield from not_known((*row.reasons.items(), *device.reasons.items()), FIELDS)
    ordinal = scene.ordinal(row)
    if ordinal.number is None and ordinal.reason:
        yield f"not known: its number for CUDA ({ordinal.reason})"
