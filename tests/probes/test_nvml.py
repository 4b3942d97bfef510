"""What the driver says becomes rows, and what it does not say becomes a reason."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator

import msgspec
import pytest

from mpmon.model import Handle as OpenFile
from mpmon.probes.nvml.calls import Handle
from mpmon.probes.nvml.pids import NOT_VISIBLE, OTHER_NAMESPACE
from mpmon.probes.nvml.processes import SAMPLE, Load, Samples
from tests import nvml as driver
from tests.builders import ROOT, process, snapshot
from tests.nvml import GIB, MIB, NOT_FOUND, NOT_SUPPORTED, UNKNOWN_MEMORY, Scenario, uuid
from tests.nvml.fixture import Standin
from tests.probes.gpus import EVERYTHING, Looks, without_pauses
from tests.sleepers import sleeper

NOBODY = 4_000_000
"""A pid nobody has: that of a process on the host, seen from a container."""


@pytest.fixture
def looks(nvml: Standin, monkeypatch: pytest.MonkeyPatch) -> Iterator[Looks]:
    without_pauses(monkeypatch)
    looks = Looks(nvml)
    yield looks
    looks.close()


def test_a_device(looks: Looks) -> None:
    before = time.time()
    looks.at(Scenario(power=612_000, clock_reasons=0x4 | 0x40, recovery=1, compute_mode=3))
    gpu = looks.gpu()
    assert before <= gpu.read_at <= time.time()
    assert (gpu.uuid, gpu.index, gpu.name, gpu.bus_id) == (uuid(0), 0, "Stand-in H200", "00000000:10:00.0")
    assert (gpu.memory_total_bytes, gpu.memory_used_bytes, gpu.memory_reserved_bytes) == (140 * GIB, 4 * GIB, 600 * MIB)
    assert (gpu.utilization_percent, gpu.memory_utilization_percent) == (60.0, 20.0)
    assert (gpu.power_watts, gpu.power_limit_watts, gpu.temperature_celsius) == (612.0, 700.0, 50.0)
    assert (gpu.sm_clock_mhz, gpu.sm_clock_max_mhz, gpu.memory_clock_mhz) == (1500, 1980, 3201)
    assert gpu.clock_event_reasons == ("power cap", "thermal (hardware)")
    assert (gpu.ecc_uncorrected, gpu.recovery_action, gpu.xids) == (0, "reset", ())
    assert (gpu.mig, gpu.compute_mode, gpu.persistence) == (False, "exclusive process", True)
    assert (gpu.problem, gpu.blocked_since) == (None, None)
    assert gpu.reasons == dict.fromkeys(("pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s"), "not asked for")
    assert looks.last.driver == "580.95.05"
    assert (looks.report.name, looks.report.ok, looks.report.problem) == ("gpus", True, None)


def test_sixteen_devices(looks: Looks) -> None:
    assert [gpu.index for gpu in looks.at(Scenario(gpus=16)).gpus] == list(range(16))


def test_pcie_only_when_somebody_looks(looks: Looks) -> None:
    looks.round()
    looks.probe.pcie = True
    looks.at(Scenario(pcie_rx=2000, pcie_tx=1000))
    gpu = looks.gpu()
    assert (gpu.pcie_rx_bytes_per_s, gpu.pcie_tx_bytes_per_s, gpu.reasons) == (2000 * 1024, 1000 * 1024, {})


@pytest.mark.parametrize(
    ("function", "fields"),
    [
        ("nvmlDeviceGetUtilizationRates", ("utilization_percent", "memory_utilization_percent")),
        ("nvmlDeviceGetPowerUsage", ("power_watts",)),
        ("nvmlDeviceGetPowerManagementLimit", ("power_limit_watts",)),
        ("nvmlDeviceGetClockInfo", ("sm_clock_mhz", "memory_clock_mhz")),
        ("nvmlDeviceGetMaxClockInfo", ("sm_clock_max_mhz",)),
        ("nvmlDeviceGetCurrentClocksEventReasons", ("clock_event_reasons",)),
        ("nvmlDeviceGetTotalEccErrors", ("ecc_uncorrected",)),
        ("nvmlDeviceGetFieldValues", ("recovery_action",)),
        ("nvmlDeviceGetComputeMode", ("compute_mode",)),
        ("nvmlDeviceGetPersistenceMode", ("persistence",)),
        ("nvmlDeviceGetPciInfo_v3", ("bus_id",)),
    ],
)
def test_a_field_that_is_refused_is_none_with_its_reason(looks: Looks, function: str, fields: tuple[str, ...]) -> None:
    looks.at(Scenario().fails(function, NOT_SUPPORTED))
    gpu = looks.gpu()
    assert {field: (getattr(gpu, field), gpu.reasons[field]) for field in fields} == dict.fromkeys(
        fields, (None, "not supported by this GPU")
    )
    assert set(gpu.reasons) == {*fields, "pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s"}
    assert looks.report.ok


def test_other_words_for_other_refusals(looks: Looks) -> None:
    looks.at(
        Scenario(gpus=2)
        .fails("nvmlDeviceGetPowerUsage", driver.NO_PERMISSION, gpu=0)
        .fails("nvmlDeviceGetPowerUsage", 77, gpu=1)
    )
    assert looks.gpu(0).reasons["power_watts"] == "no permission"
    assert looks.gpu(1).reasons["power_watts"] == "error 77 of the driver"


def test_every_field_without_a_value_has_a_reason(looks: Looks) -> None:
    looks.at(Scenario().lost(0, NOT_SUPPORTED))
    gpu = looks.gpu()
    empty = {name for name in gpu.__struct_fields__ if getattr(gpu, name) is None} - {"problem", "blocked_since"}
    assert {"power_watts", "memory_total_bytes", "temperature_celsius"} < empty
    assert empty <= set(gpu.reasons)


def test_old_drivers_count_reserved_memory_as_used(looks: Looks) -> None:
    looks.at(Scenario(memory_used=4 * GIB).fails("nvmlDeviceGetMemoryInfo_v2", driver.FUNCTION_NOT_FOUND))
    gpu = looks.gpu()
    assert (gpu.memory_used_bytes, gpu.memory_reserved_bytes) == (4 * GIB + 600 * MIB, None)
    assert gpu.reasons["memory_reserved_bytes"] == "this driver counts it as used memory"


def test_a_gpu_without_memory_of_its_own(looks: Looks) -> None:
    looks.at(Scenario(memory_total=0).process(gpu=0, pid=os.getpid(), memory=GIB))
    assert looks.gpu().memory_used_bytes is None
    assert "shares the system's" in looks.gpu().reasons["memory_total_bytes"]
    assert looks.user(os.getpid()).memory_bytes == GIB


@pytest.mark.parametrize(("field", "key"), [("power_watts", "power"), ("ecc_uncorrected", "ecc")])
def test_all_ones_is_no_number(looks: Looks, field: str, key: str) -> None:
    looks.at(Scenario(**{key: UNKNOWN_MEMORY}))  # type: ignore[arg-type]
    assert getattr(looks.gpu(), field) is None
    assert looks.gpu().reasons[field] == "the driver gives no value"


def test_a_share_above_all_is_none(looks: Looks) -> None:
    looks.at(Scenario(utilization=4_294_967_295))
    assert looks.gpu().utilization_percent is None
    assert looks.gpu().reasons["utilization_percent"] == "the driver gives 4294967295, which is no share"


def test_numbers_without_a_name_are_told_as_numbers(looks: Looks) -> None:
    looks.at(Scenario(recovery=99, clock_reasons=0x10000, compute_mode=9))
    gpu = looks.gpu()
    assert (gpu.recovery_action, gpu.clock_event_reasons, gpu.compute_mode) == (
        "action 99", ("reason 0x10000",), "mode 9",
    )  # fmt: skip


def test_a_driver_that_writes_one_field_value_too_many(looks: Looks) -> None:
    looks.at(Scenario(recovery=2).overrun())
    assert looks.gpu().recovery_action == "reboot"


def test_xids_from_the_moment_mpmon_listens(looks: Looks) -> None:
    scenario = Scenario(gpus=2).xid(1, 13)
    before = time.time()
    looks.at(scenario)
    looks.until(lambda now: now.gpus[1].xids == ())
    # The thread that listens may still be on its way there; it is told each Xid that comes later.
    number = iter(range(60, 90))

    def told(_: object) -> bool:
        looks.at(scenario.xid(1, next(number)))
        return bool(looks.gpu(1).xids)

    looks.until(told)
    first = looks.gpu(1).xids[0]
    assert first.number in range(60, 90)
    assert before <= first.seen_at <= time.time()
    assert looks.gpu(0).xids == ()


def test_a_device_that_tells_no_xids(looks: Looks) -> None:
    looks.at(Scenario().fails("nvmlDeviceRegisterEvents", NOT_SUPPORTED))
    looks.until(lambda now: now.gpus[0].reasons.get("xids") == "not supported by this GPU")


# Processes


def test_a_process(looks: Looks) -> None:
    taken = time.time() - 0.5
    scenario = Scenario(gpus=2).process(gpu=1, pid=ROOT, memory=20 * GIB, sm=97, at=taken).process(gpu=1, pid=NOBODY)
    looks.at(scenario, snapshot(process(ROOT)))
    row = looks.user(ROOT)
    assert (row.gpu_uuid, row.kinds, row.memory_bytes, row.sm_percent) == (uuid(1), ("compute",), 20 * GIB, 97.0)
    assert row.sample_age_s is not None
    assert 0.5 <= row.sample_age_s <= float(f"{time.time() - taken:.2g}")
    assert (row.mig_instance, row.compute_instance, row.name, row.reasons) == (None, None, None, {})


def test_strangers_have_names(looks: Looks) -> None:
    with sleeper() as other:
        looks.at(Scenario().process(gpu=0, pid=other.pid))
        with open(f"/proc/{other.pid}/comm", encoding="utf-8") as file:
            assert looks.user(other.pid).name == file.read().rstrip("\n")
    looks.round()
    assert looks.user(other.pid).name is None
    assert looks.user(other.pid).reasons["pid"] == NOT_VISIBLE


def test_a_process_on_several_lists_is_one_row(looks: Looks) -> None:
    scenario = Scenario().process(gpu=0, pid=ROOT, memory=GIB).process(gpu=0, pid=ROOT, memory=2 * GIB, kind="graphics")
    looks.at(scenario.process(gpu=0, pid=ROOT, memory=UNKNOWN_MEMORY, kind="mps"), snapshot(process(ROOT)))
    assert looks.user(ROOT).kinds == ("compute", "graphics", "mps")
    assert looks.user(ROOT).memory_bytes == 2 * GIB


def test_a_process_twice_on_one_list_is_one_row(looks: Looks) -> None:
    looks.at(Scenario().process(gpu=0, pid=ROOT, memory=GIB).process(gpu=0, pid=ROOT, memory=GIB))
    assert (looks.user(ROOT).kinds, looks.user(ROOT).memory_bytes) == (("compute",), GIB)


def test_a_process_on_two_devices_is_two_rows(looks: Looks) -> None:
    looks.at(Scenario(gpus=2).process(gpu=0, pid=ROOT, memory=GIB).process(gpu=1, pid=ROOT, memory=3 * GIB))
    assert [row.memory_bytes for row in looks.last.gpu_processes] == [GIB, 3 * GIB]


def test_more_processes_than_there_was_room_for(looks: Looks) -> None:
    scenario = Scenario()
    for pid in range(ROOT, ROOT + 300):
        scenario.process(gpu=0, pid=pid, sm=1)
    looks.at(scenario)
    assert [row.pid for row in looks.last.gpu_processes] == list(range(ROOT, ROOT + 300))


def test_memory_the_driver_does_not_know(looks: Looks) -> None:
    looks.at(Scenario().process(gpu=0, pid=ROOT, memory=UNKNOWN_MEMORY))
    assert looks.user(ROOT).memory_bytes is None
    assert looks.user(ROOT).reasons["memory_bytes"] == "the driver does not tell the memory of this process"


def test_memory_no_device_has(looks: Looks) -> None:
    looks.at(Scenario().process(gpu=0, pid=ROOT, memory=9223372036854775794).process(gpu=0, pid=ROOT + 1, memory=GIB))
    assert looks.user(ROOT).memory_bytes is None
    assert looks.user(ROOT).reasons["memory_bytes"] == "the driver says more than the GPU has"
    assert looks.user(ROOT + 1).memory_bytes == GIB


@pytest.mark.parametrize("count", [1, 2, 5, 100])
def test_entries_of_another_length_are_noticed(looks: Looks, count: int) -> None:
    scenario = Scenario().wide()
    for number in range(count):
        scenario.process(gpu=0, pid=ROOT + number, memory=(number + 1) * GIB)
    looks.at(scenario)
    found = {row.pid: row.memory_bytes for row in looks.last.gpu_processes}
    assert found == {ROOT + number: (number + 1) * GIB for number in range(count)}


def test_an_older_version_of_the_list(looks: Looks) -> None:
    looks.at(
        Scenario().process(gpu=0, pid=ROOT).fails("nvmlDeviceGetComputeRunningProcesses_v3", driver.FUNCTION_NOT_FOUND)
    )
    assert looks.user(ROOT).kinds == ("compute",)


def test_a_list_that_makes_no_sense_is_told_and_not_shown(looks: Looks) -> None:
    looks.at(Scenario(gpus=2).process(gpu=1, pid=0).process(gpu=1, pid=5_000_000).process(gpu=0, pid=ROOT))
    assert [row.pid for row in looks.last.gpu_processes] == [ROOT]
    assert "makes no sense" in looks.gpu(1).reasons["gpu_processes"]
    assert looks.problem.startswith("GPU 1: the driver's list of processes makes no sense")


def test_a_list_that_is_refused(looks: Looks) -> None:
    looks.at(Scenario().fails("nvmlDeviceGetComputeRunningProcesses_v3", driver.NO_PERMISSION))
    assert looks.gpu().reasons["gpu_processes"] == "no permission"


# Load


def test_no_sample_is_idle(looks: Looks) -> None:
    looks.at(Scenario().process(gpu=0, pid=NOBODY).process(gpu=0, pid=ROOT))
    assert (looks.user(NOBODY).sm_percent, looks.user(NOBODY).sample_age_s) == (0.0, None)
    assert looks.user(NOBODY).reasons == {
        "sample_age_s": "the driver has no sample of it", "pid": NOT_VISIBLE, "name": NOT_VISIBLE,
    }  # fmt: skip


def test_the_load_of_a_device_is_that_of_its_only_process(looks: Looks) -> None:
    scenario = Scenario(utilization=83).process(gpu=0, pid=ROOT, sm=5)
    looks.at(scenario.fails("nvmlDeviceGetProcessUtilization", NOT_SUPPORTED))
    assert (looks.user(ROOT).sm_percent, looks.user(ROOT).sample_age_s) == (83.0, 0.0)


def test_samples_that_are_not_supported_are_unknown(looks: Looks) -> None:
    scenario = Scenario().process(gpu=0, pid=ROOT).process(gpu=0, pid=NOBODY)
    looks.at(scenario.fails("nvmlDeviceGetProcessUtilization", NOT_SUPPORTED))
    assert looks.user(ROOT).sm_percent is None
    assert looks.user(ROOT).reasons["sm_percent"] == "not supported by this GPU"


def test_the_newest_sample_counts(looks: Looks) -> None:
    now = time.time()
    scenario = Scenario().process(gpu=0, pid=ROOT).process(gpu=0, pid=NOBODY)
    looks.at(scenario.sample(0, ROOT, 90, at=now - 1).sample(0, ROOT, 10, at=now - 0.5).sample(0, ROOT, 50, at=now - 2))
    assert looks.user(ROOT).sm_percent == 10.0


def test_garbage_among_samples(looks: Looks) -> None:
    scenario = Scenario().process(gpu=0, pid=ROOT, sm=4_294_967_295).process(gpu=0, pid=ROOT + 1)
    scenario.sample(0, ROOT + 1, 99, at=time.time() + 3600).sample(0, NOBODY, 50)
    looks.at(scenario)
    assert looks.user(ROOT).sm_percent is None
    assert looks.user(ROOT).reasons["sm_percent"] == "the driver gives 4294967295, which is no share"
    assert looks.user(ROOT + 1).sm_percent == 0.0
    assert len(looks.last.gpu_processes) == 2


class Driver:
    """Gives one sample a look, taken at the time the test says, if it is newer than what was asked for."""

    def __init__(self) -> None:
        self.pid, self.sm, self.taken = ROOT, 0, 0.0

    def code(self, _name: str, _handle: object, out: object, count: object, since: ctypes.c_uint64) -> int:
        if self.taken * 1e6 <= since.value:
            return NOT_FOUND
        ctypes.memmove(out, SAMPLE.pack(self.pid, int(self.taken * 1e6), self.sm, 0, 0, 0), SAMPLE.size)  # type: ignore[arg-type]
        count._obj.value = 1  # type: ignore[attr-defined]
        return 0


def load(call: Driver, samples: Samples, now: float) -> Load:
    """What is told of the one process when the driver is asked at that moment."""
    samples.read(call, Handle(), {ROOT}, now)  # type: ignore[arg-type]
    return samples.load(ROOT, now)


@pytest.mark.parametrize(("age", "sm"), [(5.0, 90.0), (60.0, 0.0)])
def test_an_old_sample_is_no_load(age: float, sm: float) -> None:
    """What the driver still has in its buffer when it is asked for the first time."""
    call = Driver()
    call.taken, call.sm = 10_000.0 - age, 90
    assert load(call, Samples(), 10_000.0) == (sm, age)


def test_a_sample_that_is_followed_by_none_is_soon_no_load() -> None:
    call, samples = Driver(), Samples()
    call.taken, call.sm = 9_996.0, 90
    assert load(call, samples, 10_000.0) == (90.0, 4.0)
    assert load(call, samples, 10_001.0) == (0.0, 5.0)


@pytest.mark.parametrize("step", [0.0, -3600.0, 3600.0])
def test_a_clock_that_is_set_hides_no_load(step: float) -> None:
    call, samples = Driver(), Samples()
    for now, sm in ((10_000.0, 90), (10_001.0 + step, 80), (10_002.0 + step, 70)):
        call.taken, call.sm = now - 0.5, sm
        told = load(call, samples, now)
    assert told == (70.0, 0.5)


# MIG


def test_instances_have_memory_and_processes_of_their_own(looks: Looks) -> None:
    scenario = Scenario(gpus=2).instance(0, 1, total=20 * GIB, used=GIB).instance(0, 2, total=20 * GIB, used=2 * GIB)
    scenario.process(gpu=0, pid=ROOT, memory=GIB, instance=(1, 0))
    scenario.process(gpu=0, pid=ROOT, memory=2 * GIB, instance=(2, 0))
    scenario.fails("nvmlDeviceGetUtilizationRates", NOT_SUPPORTED, gpu=0)
    looks.at(scenario.process(gpu=1, pid=ROOT, memory=3 * GIB))
    assert [(row.gpu_uuid, row.mig_instance, row.compute_instance, row.memory_bytes) for row in looks.last.gpu_processes] == [
        (uuid(0), 1, 0, GIB), (uuid(0), 2, 0, 2 * GIB), (uuid(1), None, None, 3 * GIB),
    ]  # fmt: skip
    assert [(row.uuid, row.gpu_uuid, row.gpu_instance, row.compute_instance) for row in looks.last.mig_instances] == [
        ("MIG-0-1-0", uuid(0), 1, 0), ("MIG-0-2-0", uuid(0), 2, 0),
    ]  # fmt: skip
    assert [(row.memory_total_bytes, row.memory_used_bytes, row.reasons) for row in looks.last.mig_instances] == [
        (20 * GIB, GIB, {}), (20 * GIB, 2 * GIB, {}),
    ]  # fmt: skip
    assert (looks.gpu(0).mig, looks.gpu(1).mig) == (True, False)
    assert looks.gpu(0).reasons["utilization_percent"] == "not supported while MIG is on"
    assert looks.last.gpu_processes[0].reasons["sm_percent"] == "not supported while MIG is on"


def test_instances_that_may_not_be_seen(looks: Looks) -> None:
    looks.at(Scenario().instance(0, 1).fails("nvmlDeviceGetMigDeviceHandleByIndex", driver.NO_PERMISSION))
    assert (looks.gpu().mig, looks.last.mig_instances) == (True, ())


# Whose pids


def test_pids_of_another_namespace_are_told(looks: Looks) -> None:
    job = snapshot(process(ROOT), OpenFile(pid=ROOT, object="device:/dev/nvidia0"))
    looks.at(Scenario().process(gpu=0, pid=NOBODY), job)
    assert looks.user(NOBODY).reasons["pid"] == NOT_VISIBLE
    assert (looks.report.ok, looks.problem) == (False, OTHER_NAMESPACE)


def test_a_job_that_was_given_gpus_should_be_on_one(looks: Looks) -> None:
    job = snapshot(process(ROOT, environment={"CUDA_VISIBLE_DEVICES": "0"}))
    looks.at(Scenario().process(gpu=0, pid=NOBODY), job)
    assert looks.problem == OTHER_NAMESPACE


@pytest.mark.parametrize("devices", ["", "-1"])
def test_a_job_without_gpus_is_told_nothing(looks: Looks, devices: str) -> None:
    job = snapshot(process(ROOT, environment={"CUDA_VISIBLE_DEVICES": devices}))
    looks.at(Scenario().process(gpu=0, pid=NOBODY), job)
    assert looks.report.ok


def test_pids_of_the_job_are_not_of_another_namespace(looks: Looks) -> None:
    job = snapshot(process(ROOT), OpenFile(pid=ROOT, object="device:/dev/nvidia0"))
    looks.at(Scenario().process(gpu=0, pid=NOBODY).process(gpu=0, pid=ROOT), job)
    assert looks.report.ok


def test_pids_inside_of_a_container_are_translated(looks: Looks) -> None:
    job = snapshot(process(ROOT, namespace_pid=NOBODY), OpenFile(pid=ROOT, object="device:/dev/nvidia0"))
    looks.at(Scenario().process(gpu=0, pid=NOBODY, memory=GIB), job)
    assert looks.user(ROOT).memory_bytes == GIB
    assert looks.user(ROOT).reasons == {}
    assert looks.report.ok


def test_pids_two_processes_have_in_their_containers_are_not_translated(looks: Looks) -> None:
    job = snapshot(process(ROOT, namespace_pid=NOBODY), process(ROOT + 1, namespace_pid=NOBODY))
    looks.at(Scenario().process(gpu=0, pid=NOBODY), job)
    assert looks.user(NOBODY).reasons["pid"] == NOT_VISIBLE


# What costs


def test_what_did_not_change_stays_the_same_object(looks: Looks) -> None:
    scenario = Scenario(gpus=2).process(gpu=1, pid=ROOT + 1, memory=GIB).instance(1, 1)
    scenario.process(gpu=0, pid=ROOT).process(gpu=0, pid=NOBODY)
    before = looks.at(scenario)
    after = looks.round()
    assert after.gpu_processes is before.gpu_processes
    assert after.mig_instances is before.mig_instances
    changed = looks.at(scenario.process(gpu=0, pid=ROOT + 2))
    assert changed.gpu_processes[0] is before.gpu_processes[0]


def test_what_changes_slowly_is_asked_seldom(nvml: Standin, monkeypatch: pytest.MonkeyPatch) -> None:
    without_pauses(monkeypatch)
    looks = Looks(nvml, msgspec.structs.replace(EVERYTHING, slowly_every_s=3600.0, lists_every_s=3600.0))
    looks.at(Scenario(power=100_000, temperature=40, power_limit=300_000).process(gpu=0, pid=ROOT))
    looks.at(Scenario(power=200_000, temperature=80, power_limit=600_000))
    gpu = looks.gpu()
    assert (gpu.power_watts, gpu.temperature_celsius, gpu.power_limit_watts) == (200.0, 40.0, 300.0)
    assert [row.pid for row in looks.last.gpu_processes] == [ROOT]
    looks.close()


def test_empty_lists_are_asked_seldom(nvml: Standin, monkeypatch: pytest.MonkeyPatch) -> None:
    without_pauses(monkeypatch)
    looks = Looks(nvml, msgspec.structs.replace(EVERYTHING, slowly_every_s=3600.0, lists_every_s=0.0))
    looks.at(Scenario().process(gpu=0, pid=ROOT).process(gpu=0, pid=ROOT + 1, kind="mps"))
    looks.at(
        Scenario().process(gpu=0, pid=ROOT + 2).process(gpu=0, pid=ROOT + 3, kind="mps")
        .process(gpu=0, pid=ROOT + 4, kind="graphics")
    )  # fmt: skip
    assert [row.pid for row in looks.last.gpu_processes] == [ROOT + 2, ROOT + 3]
    looks.close()
