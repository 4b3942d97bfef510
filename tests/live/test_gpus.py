"""GPUs of a job as a user's shell sees them, on a machine whose driver says what the test says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest

from tests.live.running import REPOSITORY
from tests.nvml import GIB, NOT_SUPPORTED, UNKNOWN_MEMORY, Scenario, uuid
from tests.nvml.fixture import Standin
from tests.patience import left_of, ran, status_of

pytestmark = pytest.mark.live

JOB = "sleep 600 & a=$!; sleep 600 & echo $$ $a $!; wait"
HELPER = "mpmon-nvml"


@pytest.fixture
def job() -> Iterator[list[int]]:
    """Three processes that sleep: the pid of the first, which started the others, and theirs."""
    with subprocess.Popen(["sh", "-c", JOB], stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        pids = [int(word) for word in shell.stdout.readline().split()]
        yield pids
        for pid in reversed(pids):
            os.kill(pid, signal.SIGKILL)


def environment(nvml: Standin) -> dict[str, str]:
    return {**nvml.environment, "PYTHONPATH": str(REPOSITORY)}


def report(pid: int, nvml: Standin, *more: str) -> dict[str, Any]:
    """What `--once --json` says."""
    command = [sys.executable, "-m", "mpmon", str(pid), "--once", "--json", "--for", "1", *more]
    answer = ran(command, env=environment(nvml), cwd=REPOSITORY)
    assert answer.stderr == ""
    return json.loads(answer.stdout)


@contextmanager
def watching(pid: int, nvml: Standin) -> Generator[subprocess.Popen[bytes]]:
    """`--json` without end."""
    command = [sys.executable, "-m", "mpmon", str(pid), "--json", "--interval", "0.3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(nvml), cwd=REPOSITORY) as mpmon:
        try:
            yield mpmon
        finally:
            mpmon.kill()


def until(mpmon: subprocess.Popen[bytes], happened: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The first line of which this is so; a silent mpmon ends the test by its time limit."""
    assert mpmon.stdout is not None
    for line in mpmon.stdout:
        if happened(said := json.loads(line)):
            return said
    raise AssertionError("mpmon ended")


def test_a_report_says_what_the_driver_says(job: list[int], nvml: Standin) -> None:
    root, first, second = job
    scenario = Scenario(gpus=2, driver="580.95.05")
    scenario.gpu(1, power=612_000, temperature=71).fails("nvmlDeviceGetPowerUsage", NOT_SUPPORTED, gpu=0)
    scenario.gpu(0, utilization=97).process(gpu=0, pid=first, memory=20 * GIB).process(
        gpu=1, pid=second, memory=UNKNOWN_MEMORY
    )
    nvml.say(scenario.process(gpu=1, pid=os.getpid(), memory=GIB, kind="graphics"))
    said = report(root, nvml)
    assert said["driver"] == "580.95.05"
    zero, one = said["gpus"]
    assert (zero["uuid"], zero["index"], zero["name"]) == (uuid(0), 0, "Stand-in H200")
    assert (zero["memory_total_bytes"], zero["memory_used_bytes"]) == (140 * GIB, 4 * GIB)
    assert (zero["power_watts"], zero["reasons"]["power_watts"]) == (None, "not supported by this GPU")
    assert (one["power_watts"], one["temperature_celsius"], one["problem"]) == (612.0, 71.0, None)
    rows = {row["pid"]: row for row in said["gpu_processes"]}
    assert rows.keys() == {first, second, os.getpid()}
    assert (rows[first]["gpu_uuid"], rows[first]["memory_bytes"]) == (uuid(0), 20 * GIB)
    assert (rows[first]["sm_percent"], rows[first]["kinds"], rows[first]["reasons"]) == (97.0, ["compute"], {})
    assert rows[second]["memory_bytes"] is None
    assert "memory_bytes" in rows[second]["reasons"]
    assert (rows[second]["sm_percent"], rows[second]["sample_age_s"]) == (0.0, None)
    assert (rows[first]["name"], rows[os.getpid()]["name"]) == (None, psutil.Process().name())
    (probe,) = (row for row in said["probes"] if row["name"] == "gpus")
    assert (probe["ok"], probe["problem"]) == (True, None)


def test_rows_of_other_gpus_keep_coming_while_one_blocks(job: list[int], nvml: Standin) -> None:
    scenario = nvml.say(Scenario(gpus=2))
    with watching(job[0], nvml) as mpmon:
        until(mpmon, lambda said: said["gpus"])
        nvml.say(scenario.hangs("nvmlDeviceGetPowerUsage", gpu=0))
        until(mpmon, lambda said: said["gpus"][0]["blocked_since"])
        nvml.say(scenario.gpu(1, power=99_000))
        said = until(mpmon, lambda said: said["gpus"][1]["power_watts"] == 99.0)
        assert said["gpus"][0]["problem"] == "driver call nvmlDeviceGetPowerUsage blocks"
        assert said["gpus"][0]["power_watts"] == 250.0


@pytest.mark.parametrize("blocks", [False, True], ids=["that answers", "that blocks"])
def test_nothing_is_left_of_an_mpmon_that_is_killed(job: list[int], nvml: Standin, blocks: bool) -> None:
    scenario = nvml.say(Scenario(gpus=2))
    with watching(job[0], nvml) as mpmon:
        until(mpmon, lambda said: said["gpus"])
        if blocks:
            nvml.say(scenario.hangs("nvmlDeviceGetPowerUsage"))
            until(mpmon, lambda said: said["gpus"][0]["problem"])
        (helper,) = (child for child in psutil.Process(mpmon.pid).children() if child.name() == HELPER)
        mpmon.kill()
        assert left_of([helper]) == []


def test_an_mpmon_that_is_told_to_end_takes_its_helper_along(job: list[int], nvml: Standin) -> None:
    with watching(job[0], nvml) as mpmon:
        until(mpmon, lambda said: said["gpus"])
        (helper,) = (child for child in psutil.Process(mpmon.pid).children() if child.name() == HELPER)
        mpmon.send_signal(signal.SIGINT)
        assert left_of([helper]) == []
        assert status_of(mpmon) == 128 + signal.SIGINT
