"""What a real driver says, as a scenario for the stand-in of `tests.nvml`: `python -m tests.gpu.record FILE`.

    NVML_SCENARIO=FILE LD_LIBRARY_PATH=folder/of/the/stand-in mpmon PID

A value that the driver does not tell becomes the error that it gives.  Devices keep their models and lose their UUIDs;
processes, Xids and MIG instances are left out.  How much a context takes is in no answer of the driver: it is measured, where
that takes no more than starting one.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mpmon.doctor.gpu import memory
from mpmon.doctor.gpu.case import CONFIRMED, World
from mpmon.model import Gpu
from mpmon.probes.nvml.child import Child
from mpmon.probes.nvml.fields import CLOCK_EVENTS, COMPUTE_MODES, RECOVERY_ACTIONS
from mpmon.probes.nvml.wire import Ask, Look, Settings
from mpmon.probes.nvml.words import CODES
from tests.nvml import MIB, NOT_SUPPORTED, Scenario

ANSWER_S = 30.0

FIELDS: dict[str, tuple[str, float, str]] = {
    "power": ("power_watts", 1000, "nvmlDeviceGetPowerUsage"),
    "power_limit": ("power_limit_watts", 1000, "nvmlDeviceGetPowerManagementLimit"),
    "utilization": ("utilization_percent", 1, "nvmlDeviceGetUtilizationRates"),
    "memory_utilization": ("memory_utilization_percent", 1, "nvmlDeviceGetUtilizationRates"),
    "memory_total": ("memory_total_bytes", 1, "nvmlDeviceGetMemoryInfo"),
    "memory_used": ("memory_used_bytes", 1, "nvmlDeviceGetMemoryInfo"),
    "memory_reserved": ("memory_reserved_bytes", 1, "nvmlDeviceGetMemoryInfo_v2"),
    "temperature": ("temperature_celsius", 1, "nvmlDeviceGetTemperature"),
    "sm_clock": ("sm_clock_mhz", 1, "nvmlDeviceGetClockInfo"),
    "sm_clock_max": ("sm_clock_max_mhz", 1, "nvmlDeviceGetMaxClockInfo"),
    "memory_clock": ("memory_clock_mhz", 1, "nvmlDeviceGetClockInfo"),
    "ecc": ("ecc_uncorrected", 1, "nvmlDeviceGetTotalEccErrors"),
    "persistence": ("persistence", 1, "nvmlDeviceGetPersistenceMode"),
    "pcie_rx": ("pcie_rx_bytes_per_s", 1 / 1024, "nvmlDeviceGetPcieThroughput"),
    "pcie_tx": ("pcie_tx_bytes_per_s", 1 / 1024, "nvmlDeviceGetPcieThroughput"),
}
"""By key of the scenario: field of `mpmon.model.Gpu`, units of the driver in one of that field, and the call."""

NAMED = {
    "recovery": ("recovery_action", RECOVERY_ACTIONS, "nvmlDeviceGetFieldValues"),
    "compute_mode": ("compute_mode", COMPUTE_MODES, "nvmlDeviceGetComputeMode"),
}
"""The same where the driver's number has a name."""


def scenario_of(look: Look, context_bytes: int | None = None) -> Scenario:
    """What the driver says, to be said again."""
    scenario = Scenario(len(look.gpus), driver=look.driver or "unknown")
    for index, gpu in enumerate(look.gpus):
        values = {"name": gpu.name, **_values(gpu), "mig": 0}
        if context_bytes is not None:
            values["context"] = context_bytes
        scenario.gpu(index, **values)
        for function, code in _errors(gpu):
            scenario.fails(function, code, gpu=index)
    return scenario


def _values(gpu: Gpu) -> dict[str, int | str]:
    found: dict[str, int | str] = {}
    for key, (field, unit, _) in FIELDS.items():
        value = getattr(gpu, field)
        if value is not None:
            found[key] = round(value * unit)
    for key, (field, names, _) in NAMED.items():
        name = getattr(gpu, field)
        if name in names:
            found[key] = names.index(name)
    bits = {name: bit for bit, name in CLOCK_EVENTS.items()}
    found["clock_reasons"] = sum(bits.get(name, 0) for name in gpu.clock_event_reasons or ())
    return found


def _errors(gpu: Gpu) -> list[tuple[str, int]]:
    """Each call that gave no value, with its return code."""
    codes = {words: code for code, words in CODES.items()}
    calls = {field: call for field, _, call in (*FIELDS.values(), *NAMED.values())}
    calls |= {"clock_event_reasons": "nvmlDeviceGetCurrentClocksEventReasons"}
    missing = {calls[field]: why for field, why in gpu.reasons.items() if field in calls}
    return [(call, codes.get(why, NOT_SUPPORTED)) for call, why in sorted(missing.items())]


def look() -> Look:
    """Everything at once, what goes over PCIe too."""
    child = Child(Settings())
    try:
        child.ask(Ask(pcie=True))
        answer = child.hear(ANSWER_S)
    finally:
        child.close()
    return answer or Look(problem=f"the driver did not answer within {ANSWER_S:g} s")


def main(path: str) -> None:
    """Write the file."""
    answer = look()
    if not answer.gpus:
        sys.exit(f"nothing to record: {answer.problem or 'the driver knows no GPU'}")
    context = next(case for case in memory.CASES if case.name == "context-is-listed").result(World())
    measured = int(context.figures["context_mib"] * MIB) if context.verdict == CONFIRMED else None
    scenario_of(answer, measured).write(Path(path))
    print(f"{len(answer.gpus)} device(s) written to {path}; a context takes {measured or 'an unknown number of'} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
