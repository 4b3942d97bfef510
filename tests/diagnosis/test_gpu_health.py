"""Remarks about devices themselves: trouble, heat, and a driver that does not name the job."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mpmon.diagnosis.findings import Remark
from mpmon.diagnosis.remarks import gpu_lost
from mpmon.model import ProbeReport, Row, Xid
from mpmon.probes.nvml.client import NAME
from mpmon.probes.nvml.fields import CLOCK_EVENTS
from mpmon.probes.nvml.pids import OTHER_NAMESPACE
from mpmon.probes.nvml.words import DEVICES
from tests.builders import (
    START,
    gpu,
    holds,
    on_gpu,
    process,
    snapshot,
)
from tests.diagnosis.gpu_jobs import (
    USED,
    Rows,
    ranks,
    rounds,
    said,
    words,
    worker,
)

# gpu-lost


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        ({"problem": "the GPU is lost"}, "GPU 1 (NVIDIA H200): the GPU is lost"),
        ({"problem": "the GPU requires a reset: end all"}, "GPU 1 (NVIDIA H200): the GPU requires a reset: end all"),
        ({"recovery_action": "reset"}, "GPU 1 (NVIDIA H200): the driver requests: reset"),
        ({"xids": (Xid(number=79, seen_at=START),)}, "XID 79 (it has fallen off the bus), 12 s ago"),
        ({"xids": (Xid(number=999, seen_at=START),)}, "XID 999, 12 s ago"),
        (
            {"ecc_uncorrected": 2},
            "2 uncorrected memory errors since the driver was loaded, none of them since mpmon started",
        ),
        (
            {"problem": "driver call nvmlDeviceGetPowerUsage blocks", "blocked_since": START - 30},
            "a driver call has not returned for 42 s",
        ),
    ],
)
def test_a_device_in_trouble(trouble: dict[str, Any], told: str) -> None:
    (found,) = said("gpu-lost", snapshot(*USED, gpu(0, at=12), gpu(1, at=12, **trouble), at=12))
    assert found.summary.endswith(told)
    assert (found.gpu_uuids, found.pids) == (("GPU-1",), (11,))
    assert "rank 1 has a context on it" in found.evidence


@pytest.mark.parametrize(
    "healthy",
    [
        {},
        {"recovery_action": "none"},
        {"ecc_uncorrected": 0},
        {"problem": "no permission"},
        {"problem": "the NVIDIA driver library crashed (SIGSEGV)"},
        {"problem": "driver call nvmlDeviceGetPowerUsage blocks", "blocked_since": START + 10},
    ],
)
def test_no_trouble(healthy: dict[str, Any]) -> None:
    assert said("gpu-lost", snapshot(*USED, gpu(0, at=12), gpu(1, at=12, **healthy), at=12)) == []


def test_errors_of_a_device_that_the_job_does_not_use_are_not_its_business() -> None:
    others = gpu(2, ecc_uncorrected=5, recovery_action="reset")
    assert said("gpu-lost", snapshot(*USED, gpu(0), gpu(1), others)) == []
    assert said("gpu-lost", snapshot(process(), gpu(0, problem="the GPU is lost"))) == []


def test_a_device_that_is_lost_has_no_list_any_more_but_had_one() -> None:
    lost = gpu(1, problem="the GPU is lost", utilization_percent=None)
    (found,) = said(
        "gpu-lost", [snapshot(*USED, gpu(0), gpu(1)), snapshot(*ranks(), on_gpu(10, 0), gpu(0), lost, at=1)]
    )
    assert found.gpu_uuids == ("GPU-1",)


def test_a_device_of_which_only_the_open_file_tells() -> None:
    lost = gpu(1, recovery_action="reboot")
    assert said("gpu-lost", snapshot(*ranks(), holds(11, "device:/dev/nvidia1"), gpu(0), lost))
    assert said("gpu-lost", snapshot(*ranks(), holds(11, "device:/dev/nvidiactl"), gpu(0), lost)) == []


def test_new_memory_errors_are_told_from_old_ones() -> None:
    seen = rounds(3, lambda second: (*USED, gpu(0, at=second, ecc_uncorrected=1 + second)))
    assert "4 uncorrected memory errors since the driver was loaded, 3 of them while mpmon watched" in words(
        said("gpu-lost", seen)
    )


def test_an_error_of_the_program_is_told_from_one_of_the_device() -> None:
    faults = gpu(1, xids=(Xid(number=31, seen_at=START), Xid(number=43, seen_at=START)))
    assert "compute-sanitizer" in words(said("gpu-lost", snapshot(*USED, gpu(0), faults)))
    broken = gpu(1, xids=(Xid(number=31, seen_at=START), Xid(number=48, seen_at=START)))
    assert "compute-sanitizer" not in words(said("gpu-lost", snapshot(*USED, gpu(0), broken)))


# gpu-throttled

HOT = {"utilization_percent": 90.0, "sm_clock_mhz": 1200, "clock_event_reasons": ("thermal (hardware)",)}


def clocked(values: dict[str, Any], *others: Row, seconds: int = 8) -> list[Remark]:
    seen = rounds(seconds, lambda second: (*USED, *others, gpu(0, at=second), gpu(1, at=second, **values)))
    return said("gpu-throttled", seen)


def test_a_rank_that_is_slowed_down_by_heat() -> None:
    (found,) = clocked({**HOT, "temperature_celsius": 91.0})
    assert found.summary == "GPU 1, which rank 1 uses, is slowed down: thermal (hardware)"
    assert found.evidence == ("GPU 1: 1200 MHz of 1980 MHz, 91 °C",)
    assert (found.pids, found.since) == ((11,), START)


def test_the_clock_of_its_peers() -> None:
    def facts(second: int) -> Rows:
        return (*USED, gpu(0, at=second, utilization_percent=90.0), gpu(1, at=second, **HOT))

    (found,) = said("gpu-throttled", rounds(8, facts))
    assert found.evidence[1] == "the other GPUs of the job run at 1980 MHz"


@pytest.mark.parametrize("reason", ["thermal (software)", "slowdown (hardware)", "power brake (hardware)"])
def test_other_slowdowns(reason: str) -> None:
    assert clocked({**HOT, "clock_event_reasons": ("power cap", reason)})[0].summary.endswith(f"slowed down: {reason}")


@pytest.mark.parametrize(
    "values",
    [
        {**HOT, "clock_event_reasons": ("power cap",)},
        {**HOT, "clock_event_reasons": ("idle", "application clocks")},
        {**HOT, "clock_event_reasons": None},
        {**HOT, "utilization_percent": 0.0},
        {**HOT, "utilization_percent": None},
        {**HOT, "sm_clock_mhz": 1970},
    ],
)
def test_clocks_that_are_as_they_should_be(values: dict[str, Any]) -> None:
    assert clocked(values) == []


def test_a_moment_of_heat_is_none() -> None:
    assert clocked(HOT, seconds=3) == []


def test_a_hot_device_of_somebody_else() -> None:
    seen = rounds(8, lambda second: (*ranks(1), on_gpu(10, 0), gpu(0, at=second), gpu(1, at=second, **HOT)))
    assert said("gpu-throttled", seen) == []


# gpu-unseen

OPEN = (*ranks(1), holds(10, "device:/dev/nvidia0"))
FULL = gpu(0, memory_used_bytes=60 << 30)


def test_a_driver_that_does_not_name_the_job() -> None:
    (found,) = said("gpu-unseen", snapshot(*OPEN, FULL))
    assert found.summary == (
        "GPU 0 is in use, but the driver lists no process there: which process of the job is on which GPU is not known"
    )
    assert found.pids == (10,)
    assert found.evidence == ("rank 0 (pid 10) has /dev/nvidia0 open (/proc/10/fd)",)


@pytest.mark.parametrize(
    "facts",
    [
        (*OPEN, FULL, on_gpu(10)),
        (*OPEN, gpu(0, memory_used_bytes=200 << 20)),
        (*OPEN, gpu(0, memory_used_bytes=None)),
        (*OPEN, gpu(0, memory_used_bytes=60 << 30), on_gpu(900)),
        (*ranks(1), holds(10, "device:/dev/nvidiactl"), FULL),
        (*ranks(1), holds(10, "device:/dev/nvidia1"), FULL),
        (process(), worker(parent=1), holds(30, "device:/dev/nvidia0"), FULL),
        (*OPEN, gpu(0, memory_used_bytes=60 << 30, reasons={"gpu_processes": "no permission"})),
        (*OPEN, FULL, on_gpu(4711, reasons={"pid": "not visible here"})),
    ],
)
def test_a_job_that_is_named_or_may_just_not_be_there(facts: Rows) -> None:
    assert said("gpu-unseen", snapshot(*facts)) == []


def test_a_device_that_the_job_has_not_open_is_somebody_elses() -> None:
    """The file that is named is that of the device, whatever else is open."""
    both = (*ranks(1), holds(10, "device:/dev/nvidia0"), holds(10, "device:/dev/nvidia1"))
    full = [gpu(index, memory_used_bytes=60 << 30) for index in (1, 2)]
    (found,) = said("gpu-unseen", snapshot(*both, gpu(0, memory_used_bytes=200 << 20), *full))
    assert found.gpu_uuids == (full[0].uuid,)
    assert found.summary.startswith("GPU 1 is in use")
    assert found.evidence == ("rank 0 (pid 10) has /dev/nvidia1 open (/proc/10/fd)",)


# The words of the probe


def test_what_the_probe_calls_a_broken_device_is_told() -> None:
    assert all(any(word in problem for word in gpu_lost.BROKEN) for problem in DEVICES.values())


def test_the_reasons_of_the_probe_that_are_slowdowns() -> None:
    told = {reason for reason in CLOCK_EVENTS.values() if clocked({**HOT, "clock_event_reasons": (reason,)})}
    assert told == {"slowdown (hardware)", "thermal (software)", "thermal (hardware)", "power brake (hardware)"}


def test_the_probe_says_itself_that_pids_are_of_another_namespace() -> None:
    told = ProbeReport(name=NAME, ok=False, seconds=0.0, problem=OTHER_NAMESPACE)
    assert said("gpu-unseen", msgspec.structs.replace(snapshot(*OPEN, FULL), probes=(told,))) == []
