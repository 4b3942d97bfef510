"""Remarks that nobody may bring about on a GPU, or that one GPU cannot: here the stand-in driver does, on live jobs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mpmon.doctor.gpu.case import World
from mpmon.doctor.gpu.watching import Report, report_of
from mpmon.probes.nvml.pids import OTHER_NAMESPACE
from tests.gpu.hangs import topics
from tests.gpu.remarks import UNTRIED
from tests.gpu.standins import standins
from tests.gpu.streams import RANKS, job, until
from tests.nvml import GIB, Scenario, uuid
from tests.nvml.fixture import Standin

__all__ = ["standins"]

pytestmark = pytest.mark.live

BOXED = "tests.gpu.programs.boxed"
HOT = 0x40
"""nvml.h: nvmlClocksEventReasonHwThermalSlowdown."""

Provoke = Callable[[Scenario, list[int]], Scenario]
"""Of two ranks, both of which have a context on GPU 0."""


def lost(driver: Scenario, ranks: list[int]) -> Scenario:
    return driver.lost(0).process(gpu=1, pid=ranks[1])


def throttled(driver: Scenario, _: list[int]) -> Scenario:
    return driver.gpu(0, clock_reasons=HOT, sm_clock=600)


def not_own(driver: Scenario, ranks: list[int]) -> Scenario:
    return driver.process(gpu=1, pid=ranks[1], memory=20 * GIB)


PROVOKED: Mapping[str, tuple[Provoke, int]] = {
    "gpu-lost": (lost, 0),
    "gpu-throttled": (throttled, 0),
    "gpu-not-own": (not_own, 0),
}
"""By remark: how, and the GPU it is about."""

IN_CONTAINERS = {"gpu-unseen"}
"""Remarks that the tests below bring about."""


def remark_of(report: Report, topic: str) -> dict[str, Any]:
    (found,) = (row for row in report["remarks"] if row["topic"] == topic)
    return found


def inner_pid(pid: int) -> int:
    """What a process is to itself: the last number of NSpid, proc_pid_status(5)."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("NSpid:"))
    return int(line.split()[-1])


def test_each_remark_without_a_case_is_provoked() -> None:
    assert PROVOKED.keys() | IN_CONTAINERS == UNTRIED.keys()


@pytest.mark.parametrize("topic", PROVOKED)
def test_it_is_made_once_the_driver_says_so(topic: str, standins: World, nvml: Standin) -> None:
    provoke, gpu = PROVOKED[topic]
    with job(RANKS, "shares", "2", "cuda") as (program, said):
        assert topic not in topics(report_of(program.pid))
        nvml.say(provoke(Scenario(gpus=2), said["ranks"]))
        report = until(program.pid, lambda report: topic in topics(report), f"the remark {topic}")
        assert remark_of(report, topic)["gpu_uuids"] == [uuid(gpu)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may have a namespace of its own")
@pytest.mark.parametrize("pids", [(), ("pids",)], ids=["mounts", "mounts and pids"])
def test_who_has_a_device_open_in_a_container_is_told(pids: tuple[str, ...], standins: World, nvml: Standin) -> None:
    """The file is none of this side's /dev, and the process has another pid on its own."""
    nvml.say(Scenario(gpus=2))  # with memory in use
    with job(BOXED, "nvidia0", *pids) as (program, said):
        report = until(program.pid, lambda report: "gpu-unseen" in topics(report), "the remark gpu-unseen")
        remark = remark_of(report, "gpu-unseen")
        (holder,) = remark["pids"]
        assert inner_pid(holder) == said["pid"]
        assert (holder == said["pid"]) is not bool(pids)
        assert remark["gpu_uuids"] == [uuid(0)]
        assert f"(pid {holder}) has /dev/nvidia0 open" in remark["evidence"][0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may have a namespace of its own")
def test_a_pid_that_the_driver_has_of_a_container_is_that_of_the_process_here(standins: World, nvml: Standin) -> None:
    with job(BOXED, "nvidia0", "pids") as (program, said):
        nvml.say(Scenario().process(gpu=0, pid=said["pid"]))
        report = report_of(program.pid)
        assert "gpu-unseen" not in topics(report)
        assert all(row["problem"] != OTHER_NAMESPACE for row in report["probes"])
