"""What a machine says of itself as a whole: read from files that say what a test wants, and from this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from mpmon.model import Figures, Gpu, GpuProcess, Snapshot
from mpmon.probes.figures import FIGURES, FIRST, NO_GPU, NO_GROUPS, FiguresProbe
from mpmon.probes.files import Proc
from tests.builders import ROOT, gpu, on_gpu, process, snapshot
from tests.probes.test_cgroups import V1_MOUNT, V2_MOUNT, Machine
from tests.probes.tree import Tree, TreeProc

TIMES = "cpu  {used} 0 0 900 0 0 0 {steal} 50 0\ncpu0 1\n"
DEVICES = """\
Inter-|   Receive                            |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo: 1 1 90 90 0 0 0 0 1 1 90 90 0 0 0 0
  eth0: 1 1 {errors} {drops} 0 0 0 0 1 1 1 2 0 0 0 0
"""
SEGMENTS = "Ip: A\nIp: 1\nTcp: InSegs OutSegs RetransSegs\nTcp: 5 {sent} {again}\n"
CALM: dict[str, Any] = {
    "used": 100, "steal": 0, "load": 2.0, "stall_us": 0, "errors": 0, "drops": 0, "sent": 1000, "again": 0
}  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "proc")


class Said:
    """A machine that says what it is told."""

    def __init__(self, tree: Tree) -> None:
        self._root = tree.root
        for folder in ("pressure", "net", f"{ROOT}/net"):
            (tree.root / folder).mkdir(parents=True)
        self.probe = FiguresProbe(TreeProc(tree.root), cpus=4)

    def look(self, at: float, *rows: Any, **said: Any) -> Figures:
        values = CALM | said
        for name, text in (
            ("stat", TIMES), ("loadavg", "{load} 1.00 1.00 1/90 4100\n"), ("net/dev", DEVICES),
            ("pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total={stall_us}\nfull avg10=0.00 total=0\n"),
            (f"{ROOT}/net/snmp", SEGMENTS),
        ):  # fmt: skip
            (self._root / name).write_text(text.format(**values))
        (row,) = self.probe.add(snapshot(process(), *rows, at=at)).figures
        return row


@pytest.mark.parametrize(
    ("figure", "after", "value"),
    [
        ("steal_percent", {"used": 160, "steal": 40}, 40.0),
        ("steal_percent", {"used": 200}, 0.0),
        ("load_per_cpu", {"load": 10.0}, 2.5),
        ("memory_stall_percent", {"stall_us": 5_000_000}, 25.0),
        ("nic_errors_per_s", {"errors": 60}, 3.0),
        ("nic_drops_per_s", {"drops": 20}, 1.0),
        ("retransmit_percent", {"sent": 3000, "again": 40}, 2.0),
        ("retransmit_percent", {"sent": 1050, "again": 20}, None),
        ("nic_errors_per_s", {"errors": 0}, 0.0),
    ],
)
def test_a_figure_is_of_the_time_between_the_looks(
    tree: Tree, figure: str, after: dict[str, Any], value: float | None
) -> None:
    said = Said(tree)
    said.look(0.0)
    row = said.look(20.0, **after)

    assert row.over_s == 20.0
    assert getattr(row, figure) == value
    assert (value is None) == (figure in row.reasons)


def test_a_figure_is_of_the_last_half_minute(tree: Tree) -> None:
    said = Said(tree)
    for at in range(0, 60, 10):
        row = said.look(float(at), used=100 + at, steal=min(20, at))

    assert (row.over_s, row.steal_percent) == (30.0, 0.0)


def test_of_one_look_hardly_anything_is_known_and_why(tree: Tree) -> None:
    row = Said(tree).look(0.0)

    assert {name for name in FIGURES if getattr(row, name) is not None} == {"load_per_cpu"}
    assert (row.reasons["steal_percent"], row.reasons["gpu_power_watts"]) == (FIRST, NO_GPU)
    assert row.reasons["throttled_percent"] == NO_GROUPS


def test_what_cannot_be_read_has_its_reason_and_the_rest_is_known(tree: Tree) -> None:
    said = Said(tree)
    said.look(0.0)
    for name in ("pressure/memory", "net/dev"):
        (tree.root / name).unlink()
    (row,) = said.probe.add(snapshot(process(), at=20.0)).figures

    assert row.reasons["memory_stall_percent"] == row.reasons["nic_drops_per_s"] == "no such file or directory"
    assert row.load_per_cpu == 0.5


def test_a_counter_that_goes_back_tells_nothing(tree: Tree) -> None:
    said = Said(tree)
    said.look(0.0, errors=50)
    assert said.look(20.0, errors=3).nic_errors_per_s is None


@pytest.mark.parametrize("mount", [V1_MOUNT.replace("memory", "cpu"), V2_MOUNT])
def test_the_quota_of_a_group_around_the_job_runs_out(tree: Tree, mount: str) -> None:
    machine = Machine(tree, mount)
    text = (tree.root / "self/mountinfo").read_text()
    (tree.root / "self/mountinfo").write_text(
        text.replace("/sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu", "/x rw - ext4 x rw")
    )
    probe = FiguresProbe(machine.proc, cpus=4)

    def look(at: float, periods: int, throttled: int) -> Figures:
        machine.write("job", cpu__stat=f"usage_usec 9\nnr_periods {periods}\nnr_throttled {throttled}\n")
        machine.write("job/step", cpu__stat="usage_usec 9\nnr_periods 0\nnr_throttled 0\n")
        (row,) = probe.add(snapshot(process(cgroup="/job/step"), at=at)).figures
        return row

    look(0.0, 100, 0)
    assert look(20.0, 300, 50).throttled_percent == 25.0
    assert look(25.0, 350, 50).throttled_percent == 20.0


def of_job(**said: Any) -> list[Gpu | GpuProcess]:
    return [gpu(**said), on_gpu(ROOT)]


def test_what_the_devices_of_the_job_say(tree: Tree) -> None:
    said = Said(tree)
    slow = {"utilization_percent": 90.0, "sm_clock_mhz": 700, "sm_clock_max_mhz": 1400, "power_watts": 250.0,
            "clock_event_reasons": ("thermal (hardware)",)}  # fmt: skip
    said.look(0.0, *of_job(**slow, read_at=1.0))
    row = said.look(20.0, *of_job(**slow, read_at=21.0))

    assert (row.gpus_slowed, row.gpu_clock_percent) == (1, 50.0)
    assert (row.gpu_utilization_percent, row.gpu_power_watts) == (90.0, 250.0)


def test_a_device_that_rests_has_no_clock_to_compare(tree: Tree) -> None:
    said = Said(tree)
    said.look(0.0, *of_job(utilization_percent=0.0, sm_clock_mhz=300, sm_clock_max_mhz=1400, read_at=1.0))
    assert said.look(20.0, *of_job(utilization_percent=0.0, sm_clock_mhz=300, read_at=21.0)).gpu_clock_percent is None


def test_a_device_of_somebody_else_is_not_asked(tree: Tree) -> None:
    said = Said(tree)
    said.look(0.0, gpu(), on_gpu(99))
    assert said.look(20.0, gpu(), on_gpu(99)).reasons["gpu_power_watts"] == NO_GPU


def test_this_machine() -> None:
    probe = FiguresProbe(Proc(), cpus=1)
    empty = Snapshot(taken_at=1.0, root_pid=1, root_start_time=0.0)
    probe.add(empty)
    (row,) = probe.add(msgspec.structs.replace(empty, taken_at=3.0)).figures

    assert row.load_per_cpu is not None
    assert 0.0 <= (row.steal_percent or 0.0) <= 100.0
    assert row.nic_errors_per_s is not None
