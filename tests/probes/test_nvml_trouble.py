"""A driver that blocks, crashes, is not there or may not be asked: told in one sentence, and nothing else stops."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from mpmon.probes.nvml import client
from mpmon.probes.nvml.wire import Settings
from tests.builders import ROOT, process, snapshot
from tests.nvml import (
    DRIVER_NOT_LOADED,
    GIB,
    GPU_IS_LOST,
    LIBRARY,
    NO_PERMISSION,
    RESET_REQUIRED,
    VERSION_MISMATCH,
    Scenario,
    uuid,
)
from tests.nvml.fixture import Standin
from tests.patience import left_of
from tests.probes.gpus import IMPATIENT, Looks, without_pauses

HELPER = "mpmon.probes.nvml.helper"
POWER = "nvmlDeviceGetPowerUsage"


@pytest.fixture
def looks(nvml: Standin, monkeypatch: pytest.MonkeyPatch) -> Iterator[Looks]:
    without_pauses(monkeypatch)
    looks = Looks(nvml, IMPATIENT, restarts_after_s=(0.0, 0.0))
    yield looks
    looks.close()


def helpers() -> list[psutil.Process]:
    """The helper processes of this process that are alive; whatever another test left as a zombie is none."""
    return [child for child in psutil.Process().children() if any(HELPER in word for word in command_of(child))]


def command_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def ends_for_good(looks: Looks) -> None:
    """The probe ends, whatever calls have not come back, and its helper with it."""
    assert looks.probe.helper is not None
    helper = psutil.Process(looks.probe.helper)
    looks.probe.close()
    assert left_of([helper]) == []
    assert looks.probe.helper is None


# Calls that do not come back


def test_a_device_that_blocks_stops_no_other(looks: Looks) -> None:
    scenario = Scenario(gpus=3, utilization=70).process(gpu=0, pid=ROOT, memory=GIB).process(gpu=1, pid=ROOT + 1)
    before = looks.at(scenario)
    began = time.time()
    looks.at(scenario.hangs(POWER, gpu=0))
    looks.until(lambda now: now.gpus[0].blocked_since and now.gpus[2].read_at > now.gpus[0].blocked_since)
    stuck = looks.gpu(0)
    assert stuck.problem == f"driver call {POWER} blocks"
    assert stuck.blocked_since is not None
    assert began <= stuck.blocked_since <= time.time()
    assert (stuck.read_at, stuck.power_watts) == (before.gpus[0].read_at, 250.0)
    assert (looks.report.ok, looks.problem) == (False, f"GPU 0: driver call {POWER} blocks")
    assert (looks.user(ROOT).memory_bytes, looks.user(ROOT).sm_percent) == (GIB, None)
    assert looks.user(ROOT).reasons["sm_percent"] == f"driver call {POWER} blocks"
    assert looks.user(ROOT + 1).sm_percent == 70.0
    read_at = looks.gpu(1).read_at
    looks.at(scenario.gpu(1, power=111_000))
    assert looks.gpu(1).read_at > read_at
    assert looks.gpu(1).power_watts == 111.0
    assert looks.gpu(0) is looks.round().gpus[0]
    ends_for_good(looks)


def test_a_device_that_answers_again_is_read_again(looks: Looks) -> None:
    scenario = Scenario(gpus=2)
    looks.at(scenario)
    looks.at(scenario.hangs(POWER, gpu=1))
    looks.until(lambda now: now.gpus[1].problem)
    looks.at(scenario.healed().gpu(1, power=77_000))
    looks.until(lambda now: now.gpus[1].power_watts == 77.0)
    assert (looks.gpu(1).problem, looks.gpu(1).blocked_since) == (None, None)
    assert looks.report.ok


def test_every_device_blocks(looks: Looks) -> None:
    looks.at(Scenario(gpus=4))
    looks.at(Scenario(gpus=4).hangs(POWER))
    looks.until(lambda now: all(gpu.problem for gpu in now.gpus))
    assert looks.problem == f"GPU 0, 1, 2, 3: driver call {POWER} blocks"
    ends_for_good(looks)


def test_a_device_that_never_answered(looks: Looks) -> None:
    looks.at(Scenario(gpus=2).hangs("nvmlDeviceGetUUID", gpu=0))
    looks.until(lambda now: len(now.gpus) == 2)
    assert (looks.gpu(0).uuid, looks.gpu(0).problem) == ("unread-0", "driver call nvmlDeviceGetUUID blocks")
    assert looks.gpu(0).reasons["power_watts"] == "not read yet"
    assert looks.gpu(1).uuid == uuid(1)


def test_a_start_that_blocks(looks: Looks) -> None:
    looks.at(Scenario().hangs("nvmlInitWithFlags"))
    looks.until(lambda now: now.probes[-1].problem)
    assert (looks.report.ok, looks.problem) == (False, "driver call nvmlInitWithFlags blocks")
    assert looks.last.gpus == ()
    looks.at(Scenario())
    looks.until(lambda now: now.gpus)
    assert looks.report.ok


def test_a_start_that_blocks_for_ever_keeps_nobody(looks: Looks) -> None:
    looks.at(Scenario().hangs("nvmlInitWithFlags"))
    ends_for_good(looks)


def test_the_loop_does_not_wait_for_a_slow_answer(nvml: Standin, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the deadlines of every day: rounds go on, and soon it is told that nothing comes."""
    monkeypatch.setattr(client, "SILENCE_S", 0.0)
    monkeypatch.setattr(client, "FIRST_PATIENCE_S", 0.01)
    nvml.say(Scenario().hangs("nvmlInitWithFlags"))
    looks = Looks(nvml, Settings())
    looks.round()
    assert (looks.report.ok, looks.problem) == (False, "no answer from the NVIDIA driver for 0 s")
    ends_for_good(looks)
    looks.close()


# Crashes


def test_a_crash_is_told_and_the_helper_started_again_a_few_times(looks: Looks) -> None:
    scenario = Scenario(gpus=2).process(gpu=0, pid=ROOT, sm=50)
    looks.at(scenario)
    crashed = "the NVIDIA driver library crashed (SIGSEGV)"
    looks.at(scenario.crashes(POWER, gpu=1))
    looks.until(lambda now: now.probes[-1].problem)
    assert (looks.report.ok, looks.problem) == (False, f"{crashed}; asked again after 0 s")
    assert [gpu.problem for gpu in looks.last.gpus] == [crashed, crashed]
    assert looks.user(ROOT).sm_percent is None
    looks.until(lambda now: now.probes[-1].problem == f"{crashed}; not asked again")
    assert helpers() == []
    looks.at(scenario.healed())
    assert (looks.problem, helpers()) == (f"{crashed}; not asked again", [])


def test_after_a_crash_all_is_read_anew(looks: Looks) -> None:
    scenario = Scenario()
    looks.at(scenario)
    looks.at(scenario.crashes(POWER))
    looks.until(lambda now: now.probes[-1].problem)
    scenario.healed()
    looks.at(scenario)
    looks.until(lambda now: now.probes[-1].ok)
    assert looks.gpu().problem is None


def test_xids_outlive_the_helper_that_was_told(looks: Looks) -> None:
    scenario = Scenario()
    looks.at(scenario)

    def told(_: object) -> bool:
        looks.at(scenario.xid(0, 79))
        return bool(looks.gpu().xids)

    looks.until(told)
    earlier = looks.gpu().xids
    looks.at(scenario.crashes(POWER))
    looks.until(lambda now: now.probes[-1].problem)
    looks.at(scenario.healed())
    looks.until(lambda now: now.probes[-1].ok)
    assert looks.gpu().xids[: len(earlier)] == earlier


def test_a_helper_that_somebody_kills(looks: Looks) -> None:
    looks.round()
    helpers()[0].kill()
    looks.until(lambda now: now.probes[-1].problem)
    assert looks.problem == "mpmon's helper for the NVIDIA driver was killed (SIGKILL); asked again after 0 s"


# Devices and drivers that refuse


@pytest.mark.parametrize(
    ("code", "words", "remedy"),
    [(GPU_IS_LOST, "the GPU is lost", "dmesg"), (RESET_REQUIRED, "the GPU requires a reset", "nvidia-smi --gpu-reset")],
)
def test_a_device_that_is_lost_while_mpmon_looks(looks: Looks, code: int, words: str, remedy: str) -> None:
    scenario = Scenario(gpus=2)
    looks.at(scenario)
    looks.at(scenario.lost(1, code))
    gpu = looks.gpu(1)
    assert (gpu.uuid, gpu.name, gpu.power_watts) == (uuid(1), "Stand-in H200", None)
    assert gpu.problem is not None
    assert gpu.problem.startswith(words)
    assert remedy in gpu.problem
    assert gpu.reasons["power_watts"] == words
    assert looks.gpu(0).problem is None
    assert (looks.report.ok, looks.problem) == (False, f"GPU 1: {gpu.problem}")


def test_a_device_that_is_lost_from_the_start(looks: Looks) -> None:
    looks.at(Scenario(gpus=2).fails("nvmlDeviceGetHandleByIndex_v2", GPU_IS_LOST, gpu=0))
    assert (looks.gpu(0).uuid, looks.gpu(0).reasons["power_watts"]) == ("unread-0", "the GPU is lost")
    assert looks.problem.startswith("GPU 0: the GPU is lost")
    assert looks.gpu(1).problem is None


@pytest.mark.parametrize(
    ("code", "words", "remedy"),
    [
        (VERSION_MISMATCH, "the NVIDIA driver was updated and its old kernel module still runs", "reboot"),
        (NO_PERMISSION, "the NVIDIA driver refuses this user", "/dev/nvidiactl"),
        (GPU_IS_LOST, "a GPU is lost", "dmesg"),
        (RESET_REQUIRED, "a GPU requires a reset", "nvidia-smi --gpu-reset"),
        (4711, "the NVIDIA driver does not start: error 4711 of the driver", "nvidia-smi"),
    ],
)
def test_a_driver_that_does_not_start(looks: Looks, code: int, words: str, remedy: str) -> None:
    looks.at(Scenario().fails("nvmlInitWithFlags", code))
    assert not looks.report.ok
    assert looks.problem.startswith(words)
    assert remedy in looks.problem
    looks.at(Scenario())
    assert (looks.report.ok, len(looks.last.gpus)) == (True, 1)


def pci(folder: Path, *, status: str) -> str:
    """A machine with one NVIDIA GPU and its sound device, as the kernel shows them."""
    for name, kind in (("0000:01:00.0", "0x030200"), ("0000:01:00.1", "0x040300")):
        device = folder / name
        (device / "power").mkdir(parents=True, exist_ok=True)
        (device / "vendor").write_text("0x10de\n")
        (device / "class").write_text(f"{kind}\n")
        (device / "power/runtime_status").write_text(f"{status if kind == '0x030200' else 'active'}\n")
    return str(folder)


def test_a_driver_that_is_not_loaded(nvml: Standin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_pauses(monkeypatch)
    settings = msgspec.structs.replace(IMPATIENT, pci=pci(tmp_path / "pci", status="active"))
    looks = Looks(nvml, settings)
    looks.at(Scenario().fails("nvmlInitWithFlags", DRIVER_NOT_LOADED))
    assert not looks.report.ok
    assert looks.problem.startswith("the NVIDIA driver is not loaded: modprobe nvidia")
    looks.close()


def test_a_machine_with_the_driver_and_no_gpu(nvml: Standin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_pauses(monkeypatch)
    looks = Looks(nvml, msgspec.structs.replace(IMPATIENT, pci=str(tmp_path)))
    looks.at(Scenario().fails("nvmlInitWithFlags", DRIVER_NOT_LOADED))
    assert (looks.report.ok, looks.problem) == (True, "no NVIDIA GPU here: the driver is installed but not loaded")
    looks.close()


def test_a_gpu_that_sleeps_is_not_woken(nvml: Standin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_pauses(monkeypatch)
    looks = Looks(nvml, msgspec.structs.replace(IMPATIENT, pci=pci(tmp_path / "pci", status="suspended")))
    looks.round()
    assert (looks.report.ok, looks.last.gpus) == (True, ())
    assert looks.problem == "every NVIDIA GPU here is suspended, and mpmon wakes none"
    pci(tmp_path / "pci", status="active")
    looks.round()
    assert (looks.problem, len(looks.last.gpus)) == ("", 1)
    looks.close()


# No driver at all


def has_driver() -> bool:
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return os.path.exists("/dev/nvidiactl")
    return True


@pytest.mark.skipif(has_driver(), reason="there is an NVIDIA driver here")
def test_a_machine_without_a_driver_is_told_so_once(nvml: Standin, monkeypatch: pytest.MonkeyPatch) -> None:
    without_pauses(monkeypatch)
    monkeypatch.delenv("LD_LIBRARY_PATH")
    looks = Looks(nvml, IMPATIENT)
    for _ in range(3):
        looks.round()
        assert looks.report.ok
        assert looks.problem == "no NVIDIA driver here: libnvidia-ml.so.1 was not found"
        assert (looks.last.gpus, looks.last.driver, helpers()) == ((), None, [])
    looks.close()


def test_a_library_that_cannot_be_loaded(looks: Looks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / LIBRARY).write_text("not a library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    looks.round()
    assert not looks.report.ok
    assert looks.problem.startswith("the NVIDIA driver's library cannot be loaded")


def test_the_deprecated_package_is_told(looks: Looks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text("def nvmlInit(): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    looks.round()
    assert not looks.report.ok
    assert looks.problem.startswith("the deprecated package pynvml shadows nvidia-ml-py: pip uninstall")


def test_files_beside_the_user_do_not_matter(looks: Looks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("pynvml", "msgspec", "ctypes", "queue", "struct"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong file')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    looks.round()
    assert (looks.report.ok, len(looks.last.gpus)) == (True, 1)


# From start to end


def test_the_first_picture_of_a_screen_starts_no_helper(nvml: Standin, monkeypatch: pytest.MonkeyPatch) -> None:
    without_pauses(monkeypatch)
    looks = Looks(nvml, IMPATIENT)
    looks.probe._eager = False
    assert looks.round().probes == ()
    assert helpers() == []
    looks.round()
    assert (looks.report.ok, len(looks.last.gpus)) == (True, 1)
    looks.close()


def test_the_helper_ends_with_the_probe(looks: Looks) -> None:
    looks.at(Scenario(), snapshot(process(ROOT)))
    ends_for_good(looks)
    assert looks.round().gpus
    assert helpers() == []
