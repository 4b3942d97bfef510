"""What the cases read off a device that other jobs use as well."""

from __future__ import annotations

from mpmon.doctor.gpu.driver import MIB
from mpmon.doctor.gpu.memory import device_mib
from mpmon.model import Gpu, GpuProcess
from mpmon.probes.nvml.wire import Look

OURS, OTHERS = 10, 20


def look(used: int, **mib: int) -> Look:
    rows = {"ours": OURS, "others": OTHERS}
    return Look(
        gpus=(Gpu(uuid="GPU-0", index=0, name="H100", memory_used_bytes=used * MIB),),
        processes=tuple(
            GpuProcess(pid=rows[name], gpu_uuid="GPU-0", memory_bytes=amount * MIB) for name, amount in mib.items()
        ),
    )


def test_what_another_job_takes_is_not_ours() -> None:
    before, after = look(1500, ours=500, others=700), look(2000, ours=500, others=1200)

    assert device_mib(before, "GPU-0", OURS) == device_mib(after, "GPU-0", OURS) == 800


def test_what_is_kept_for_nobody_is_still_in_use() -> None:
    assert device_mib(look(1500, others=700), "GPU-0", OURS) == 800


def test_a_device_that_the_driver_does_not_know_has_nothing_in_use() -> None:
    assert device_mib(look(1500), "GPU-1", OURS) == 0
