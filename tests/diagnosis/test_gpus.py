"""Who is on which GPU, and under which number CUDA shows it."""

from __future__ import annotations

import msgspec
import pytest

from mpmon.diagnosis.findings import Diagnosis, Observation, Verdict
from mpmon.diagnosis.gpus import Share, branches, ordinals, visible
from mpmon.diagnosis.gpus.joins import Gpus
from mpmon.diagnosis.humanize import between, runs, size
from mpmon.diagnosis.state.job_state import JobState
from mpmon.model import Gpu, MigInstance, Process, Row
from mpmon.reports.document import render
from tests.builders import MIB, ROOT, gpu, history, on_gpu, process, snapshot

FOUR = tuple(gpu(number) for number in range(4))
HALVES = tuple(
    MigInstance(uuid=f"MIG-{name}", gpu_uuid="GPU-1", gpu_instance=number, compute_instance=0, name="3g.71gb")
    for number, name in ((1, "aa11"), (2, "bb22"))
)


def sees(value: str | None, *, order: str | None = None, **more: object) -> Process:
    variables = {"CUDA_VISIBLE_DEVICES": value, "CUDA_DEVICE_ORDER": order}
    return process(7, environment={name: word for name, word in variables.items() if word is not None}, **more)


def shown(
    value: str | None, *, gpus: tuple[Gpu, ...] = FOUR, instances: tuple[MigInstance, ...] = (), **more: object
) -> str:
    """The devices in CUDA's order, or why it cannot be told."""
    found = visible(sees(value, **more), gpus, instances)
    return found.reason if found.uuids is None else " ".join(found.uuids)


@pytest.mark.parametrize(
    ("value", "devices"),
    [
        (None, "GPU-0 GPU-1 GPU-2 GPU-3"),
        ("", ""),
        ("2", "GPU-2"),
        ("3,1", "GPU-3 GPU-1"),
        (" 3 , 1 ", "GPU-3 GPU-1"),
        ("1gpu2,2ampere", "GPU-1 GPU-2"),
        ("+1,2", "GPU-1 GPU-2"),
        ("0,9,1", "GPU-0"),
        (f"0,{'9' * 5000},1", "GPU-0"),
        ("0,-1,1", "GPU-0"),
        ("-1", ""),
        ("none", ""),
        ("0,,1", "GPU-0"),
        ("0,1,0", ""),
        ("0,GPU-1", "GPU-0"),
        ("0,MIG-aa11", "GPU-0"),
        ("GPU-2,GPU-0", "GPU-2 GPU-0"),
        ("GPU-2,0", "GPU-2"),
        ("GPU-2,GPU-9,GPU-0", "GPU-2"),
        ("GPU-2,GPU-2", ""),
        ("GPU-", ""),
    ],
)
def test_the_grammar_of_visible_devices(value: str | None, devices: str) -> None:
    assert shown(value) == devices


def test_an_abbreviated_uuid_names_a_device_as_long_as_one_fits() -> None:
    gpus = (gpu(0, uuid="GPU-aaaa-1"), gpu(1, uuid="GPU-aabb-2"))
    assert shown("GPU-aab,GPU-aaa", gpus=gpus) == "GPU-aabb-2 GPU-aaaa-1"
    assert shown("GPU-aab,GPU-aa", gpus=gpus) == "GPU-aabb-2"
    assert shown("GPU-aab,GPU-aabb-2", gpus=gpus) == ""


def test_mig_instances_are_named_by_their_uuid_or_as_older_drivers_did() -> None:
    gpus = (gpu(0), gpu(1, mig=True))
    assert shown("MIG-bb,MIG-aa11", gpus=gpus, instances=HALVES) == "MIG-bb22 MIG-aa11"
    assert shown("MIG-GPU-1/2/0", gpus=gpus, instances=HALVES) == "MIG-bb22"
    assert shown("MIG-aa,GPU-0", gpus=gpus, instances=HALVES) == "MIG-aa11"


def test_how_many_instances_of_a_divided_gpu_cuda_shows_is_not_guessed() -> None:
    gpus = (gpu(0), gpu(1, mig=True))
    why = "GPU 1 is divided by MIG, and its environment names no instance"
    assert shown(None, gpus=gpus, instances=HALVES) == why
    assert shown("GPU-1", gpus=gpus, instances=HALVES) == why
    assert shown("0", gpus=gpus, instances=HALVES) == "GPU-0"


def test_devices_of_different_kinds_are_counted_by_the_bus_or_not_at_all() -> None:
    gpus = (gpu(0), gpu(1, name="NVIDIA T4"))
    assert "CUDA orders them by speed" in shown("1", gpus=gpus)
    assert shown("1", gpus=gpus, order="PCI_BUS_ID") == "GPU-1"
    assert shown("GPU-1", gpus=gpus) == "GPU-1"
    assert shown("", gpus=gpus) == ""


def test_numbers_of_a_container_may_mean_other_devices() -> None:
    assert "container" in shown("0", namespace_pid=12)
    assert shown("GPU-3", namespace_pid=12) == "GPU-3"


def test_an_environment_that_may_not_be_read_tells_nothing() -> None:
    assert visible(process(7, environment=None), FOUR, ()).reason == "its environment cannot be read"


def numbers(*rows: Row) -> dict[tuple[int, str], int | str]:
    """By pid and UUID: the number, or why there is none."""
    found = ordinals(snapshot(*rows))
    return {(pid, device[0]): row.reason if row.number is None else row.number for (pid, device), row in found.items()}


def test_the_number_of_each_device_a_process_uses() -> None:
    rows = (*FOUR, sees("3,1"), on_gpu(7, 1), on_gpu(7, 3))
    assert numbers(*rows) == {(7, "GPU-1"): 1, (7, "GPU-3"): 0}


def test_where_the_driver_finds_it_elsewhere_the_environment_is_not_believed() -> None:
    rows = (*FOUR, sees("0"), on_gpu(7, 0), on_gpu(7, 3))
    why = "it uses a device that its initial environment does not show"
    assert numbers(*rows) == {(7, "GPU-0"): why, (7, "GPU-3"): why}


def test_no_number_for_others() -> None:
    rows = (*FOUR, sees("0"), on_gpu(9, 0), on_gpu(7, 0, reasons={"pid": "of another namespace"}))
    assert all("not a process of the job" in str(found) for found in numbers(*rows).values())


def test_the_number_of_an_instance() -> None:
    rows = (gpu(0), gpu(1, mig=True), *HALVES, sees("MIG-bb22"), on_gpu(7, 1, mig_instance=2, compute_instance=0))
    assert numbers(*rows) == {(7, "GPU-1"): 0}


def test_the_report_has_the_number_or_why_it_has_none() -> None:
    now = snapshot(gpu(0), process(), sees("0"), on_gpu(7, mib=600), on_gpu(900))
    observation = Observation(snapshot=now, diagnosis=Diagnosis(verdict=Verdict.HEALTHY), watched_s=1.0)
    ours, other = msgspec.json.decode(render(observation))["gpu_processes"]
    assert (ours["pid"], ours["cuda"], ours["memory_bytes"], ours["reasons"]) == (7, 0, 600 * MIB, {})
    assert other["cuda"] is None
    assert "environment" in other["reasons"]["cuda"]


# Sums

RANKS = (
    process(),
    *(process(pid, parent=ROOT, environment={"RANK": str(pid - 10), "LOCAL_RANK": str(pid - 10)}, exe="/bin/python")
      for pid in (10, 11)),
    process(20, parent=10, name="pt_data_worker"),
)  # fmt: skip
PARENTS = {ROOT: None, 10: ROOT, 11: ROOT, 20: 10}


def test_a_branch_is_a_process_with_all_who_work_for_it() -> None:
    found = branches([on_gpu(10, mib=600, sm_percent=90.0), on_gpu(20, mib=400, sm_percent=1.0)], PARENTS)
    assert found[20] == (
        Share(gpu_uuid="GPU-0", pids=(20,), memory_bytes=400 * MIB, sm_percent=1.0, reasons={}),
    )  # fmt: skip
    assert found[10] == (
        Share(gpu_uuid="GPU-0", pids=(10, 20), memory_bytes=1000 * MIB, sm_percent=91.0, reasons={}),
    )  # fmt: skip
    assert found[ROOT] == found[10]
    assert 11 not in found


def test_a_sum_with_an_unknown_part_is_unknown_and_says_whose() -> None:
    rows = [on_gpu(10, sm_percent=0.0), on_gpu(20, mib=None, reasons={"memory_bytes": "not supported"})]
    (share,) = branches(rows, PARENTS)[10]
    assert (share.memory_bytes, share.sm_percent) == (None, None)
    assert share.reasons == {"memory_bytes": "pid 20: not supported", "sm_percent": "pid 20: not known"}


def test_instances_are_devices_of_their_own() -> None:
    rows = [on_gpu(10, 1, mib=1, mig_instance=1, compute_instance=0), on_gpu(10, 1, mib=2, mig_instance=2)]
    assert [(share.device, share.memory_bytes) for share in branches(rows, PARENTS)[10]] == [
        (("GPU-1", 1, 0), 1 * MIB),
        (("GPU-1", 2, None), 2 * MIB),
    ]


def test_pids_of_another_namespace_are_nobodys() -> None:
    assert branches([on_gpu(10, reasons={"pid": "of another namespace"}), on_gpu(999)], PARENTS) == {}


def test_a_loop_of_parents_ends() -> None:
    assert set(branches([on_gpu(10)], {10: 11, 11: 10})) == {10, 11}


# Whose device it is


def joins(*rows: Row) -> Gpus:
    now = snapshot(*FOUR, *RANKS, *rows)
    return JobState(history(now), now).gpus


def own(*rows: Row) -> dict[int, str]:
    return {head: device[0] for head, device in joins(*rows).own.items()}


def test_the_only_device_is_the_own_one() -> None:
    assert own(on_gpu(10, 2), on_gpu(20, 2)) == {10: "GPU-2"}


def test_of_several_the_one_with_by_far_the_most() -> None:
    assert own(on_gpu(11, 0, mib=500), on_gpu(11, 3, mib=9000)) == {11: "GPU-3"}


def test_of_several_alike_the_one_of_local_rank() -> None:
    assert own(on_gpu(11, 0), on_gpu(11, 1)) == {11: "GPU-1"}
    assert own(on_gpu(11, 0, mib=None), on_gpu(11, 1)) == {11: "GPU-1"}
    assert own(on_gpu(11, 0), on_gpu(11, 3)) == {}


def test_without_ranks_whoever_uses_a_gpu_speaks_for_itself() -> None:
    now = snapshot(gpu(0), process(), process(7, parent=ROOT, name="pt_data_worker"), on_gpu(ROOT), on_gpu(7))
    gpus = JobState(history(now), now).gpus
    assert gpus.heads == {ROOT}
    assert gpus.use[ROOT][0].pids == (ROOT, 7)


def test_names() -> None:
    gpus = joins(on_gpu(10, 1), on_gpu(11, 1))
    assert gpus.who([11, 10]) == "ranks 0-1"
    assert gpus.who([10]) == "rank 0"
    assert gpus.who([10, ROOT]) == f"rank 0 and main (pid {ROOT})"
    assert gpus.name(("GPU-1", None, None)) == "GPU 1"
    assert gpus.name(("GPU-1", 2, 0)) == "MIG instance 2 of GPU 1"


def test_a_device_is_remembered_once_a_reading_and_not_while_it_does_not_answer() -> None:
    rounds = [
        snapshot(process(), gpu(0, at=0.0), at=0.0),
        snapshot(process(), gpu(0, at=0.0), at=1.0),
        snapshot(process(), gpu(0, at=2.0), at=2.0),
        snapshot(process(), gpu(0, at=2.0), at=20.0),
        snapshot(process(), gpu(0, at=21.0, problem="the GPU is lost"), at=21.0),
    ]
    gpus = JobState(history(*rounds), rounds[-1]).gpus
    began = rounds[0].taken_at
    assert [row.read_at - began for row in gpus.readings("GPU-0", 0.0, began + 99)] == [0.0, 2.0]
    assert gpus.fresh == ()


# Words


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 MiB"), (480 * MIB, "480 MiB"), (1024 * MIB, "1.0 GiB"), (60500 * MIB, "59.1 GiB")]
)
def test_sizes(count: int, words: str) -> None:
    assert size(count) == words


@pytest.mark.parametrize(("given", "words"), [([], ""), ([3], "3"), ([2, 1], "1-2"), ([0, 2, 5, 6, 7], "0, 2 and 5-7")])
def test_runs(given: list[int], words: str) -> None:
    assert runs(given) == words


def test_between() -> None:
    assert between("4 W", "4 W") == "4 W"
    assert between("4 W", "9 W") == "4 W to 9 W"
