"""A GPU server for machines without one: NVIDIA's management library, ours, that says what a scenario says.

    scenario = Scenario(gpus=8).process(gpu=0, pid=4100, memory=20 * GIB, sm=97)
    scenario.write(path)
    subprocess.run(["nvitop", "--once"], env=environment(path, build(folder)))

The file is read again at each call when it was written anew, so a test changes the machine while somebody watches it.
Each line is one fact: `gpu 3 power 612000` (in the driver's units), `gpu 3 error nvmlDeviceGetPowerUsage 15`; see scenario.c.
Beside it lies a stand-in for libcuda: a process that takes memory with it is on the lists, see contexts.h.
In tests the fixture `nvml` has the libraries built, the scenario's file, and the environment that leads to both.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

LIBRARY, CUDA = "libnvidia-ml.so.1", "cuda/libcuda.so.1"
"""Apart, so that only who asks for it has the second one in place of a real one."""
SOURCES = {LIBRARY: ("nvml.c", "scenario.c", "contexts.c"), CUDA: ("cuda.c", "scenario.c", "contexts.c")}
"""By library, files beside this one."""

MIB, GIB = 1 << 20, 1 << 30
UNKNOWN_MEMORY = (1 << 64) - 1
"""What the driver gives as memory of a process when it does not know."""
NO_INSTANCE = 0xFFFFFFFF

NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, DRIVER_NOT_LOADED = 3, 4, 6, 9
FUNCTION_NOT_FOUND, GPU_IS_LOST, RESET_REQUIRED, VERSION_MISMATCH = 13, 15, 16, 18
"""Return codes of nvml.h."""

GPU: dict[str, int | str] = {
    "name": "Stand-in H200", "power": 250_000, "power_limit": 700_000, "utilization": 60, "memory_utilization": 20,
    "memory_total": 140 * GIB, "memory_used": 4 * GIB, "memory_reserved": 600 * MIB, "temperature": 50,
    "sm_clock": 1500, "sm_clock_max": 1980, "memory_clock": 3201, "clock_reasons": 0, "ecc": 0, "recovery": 0,
    "mig": 0, "compute_mode": 0, "persistence": 1, "pcie_rx": 1000, "pcie_tx": 500,
    "context": 500 * MIB,
}  # fmt: skip
"""What a device says unless told otherwise, in the driver's units: milliwatts, bytes, percent, MHz, KiB a second.

`context` is what a process takes of it before it has taken anything.
"""

ALL_CALLS_OF_A_DEVICE = (
    "nvmlDeviceGetPowerUsage", "nvmlDeviceGetPowerManagementLimit", "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature",
    "nvmlDeviceGetClockInfo", "nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetFieldValues", "nvmlDeviceGetMigMode", "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetPersistenceMode", "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetProcessUtilization", "nvmlDeviceGetPcieThroughput",
)  # fmt: skip
"""What a lost device answers with an error; its name and number are still known."""


class NoCompiler(RuntimeError):
    """The library cannot be built here; the message says why."""


def recorded(name: str) -> dict[str, int | str]:
    """What the first device of a recorded driver says (`tests.gpu.record`), as values of `Scenario`."""
    lines = (Path(__file__).parent / f"{name}.scenario").read_text().splitlines()
    words = (line.split(" ", 3) for line in lines if line.startswith("gpu 0 "))
    return {key: int(value) if value.isdigit() else value for _, _, key, value in words if key not in ("uuid", "mig")}


def uuid(gpu: int) -> str:
    """The name of a device unless told otherwise."""
    return f"GPU-00000000-0000-0000-0000-{gpu:012d}"


class Scenario:
    """What the driver says; every method changes it and returns it, `write` makes it so."""

    def __init__(self, gpus: int = 1, *, driver: str = "580.95.05", **values: int | str) -> None:
        """`values` are those of every device: see `GPU`."""
        self._driver = driver
        self._gpus = [{"uuid": uuid(index), **GPU, **values} for index in range(gpus)]
        self._rows: list[str] = []
        self._troubles: list[str] = []

    def gpu(self, index: int, **values: int | str) -> Self:
        """This device says something else."""
        self._gpus[index] |= values
        return self

    def process(
        self, gpu: int, pid: int, *, memory: int = 2 * GIB, kind: str = "compute",
        instance: tuple[int, int] = (NO_INSTANCE, NO_INSTANCE),
        sm: int | None = None, age: float = 0.1, at: float | None = None,
    ) -> Self:  # fmt: skip
        """A process in one of the lists of a device; with `sm` a sample too, see there.

        `instance`: GPU instance and compute instance.
        """
        self._rows.append(f"gpu {gpu} process {kind} {pid} {memory} {instance[0]} {instance[1]}")
        return self if sm is None else self.sample(gpu, pid, sm, age=age, at=at)

    def sample(self, gpu: int, pid: int, sm: int, *, age: float = 0.1, at: float | None = None) -> Self:
        """How busy a process is: always seen `age` seconds ago, or once `at` that moment."""
        self._rows.append(f"gpu {gpu} sample {pid} {sm} {int(age * 1e6)} {int((at or 0) * 1e6)}")
        return self

    def instance(
        self, gpu: int, gpu_instance: int, compute_instance: int = 0, *, total: int = 20 * GIB, used: int = GIB,
        uuid: str = "", name: str = "Stand-in H200 MIG 1g.18gb",
    ) -> Self:  # fmt: skip
        """A MIG instance; turns MIG on."""
        uuid = uuid or f"MIG-{gpu}-{gpu_instance}-{compute_instance}"
        self._rows.append(f"gpu {gpu} instance {gpu_instance} {compute_instance} {total} {used} {uuid} {name}")
        return self.gpu(gpu, mig=1)

    def xid(self, gpu: int, number: int) -> Self:
        """An error of the device; who listens already is told."""
        self._rows.append(f"gpu {gpu} xid {number}")
        return self

    def moving(self) -> Self:
        """Power, load, temperature and clocks change every second."""
        self._rows.append("moving")
        return self

    def wide(self) -> Self:
        """The process lists have entries of 32 bytes, as in the first drivers 535."""
        self._rows.append("wide")
        return self

    def overrun(self) -> Self:
        """Field values are written one past the requested count."""
        self._rows.append("overrun")
        return self

    def fails(self, function: str, code: int, *, gpu: int | None = None) -> Self:
        """A call returns an error, on this device or on all."""
        return self._trouble(gpu, f"error {function} {code}")

    def lost(self, gpu: int, code: int = GPU_IS_LOST) -> Self:
        """The device is lost, or has to be reset."""
        for function in ALL_CALLS_OF_A_DEVICE:
            self.fails(function, code, gpu=gpu)
        return self

    def hangs(self, function: str, *, gpu: int | None = None) -> Self:
        """A call does not come back until a scenario without this is written."""
        return self._trouble(gpu, f"hang {function}")

    def crashes(self, function: str, *, gpu: int | None = None) -> Self:
        """A call ends the process that makes it."""
        return self._trouble(gpu, f"crash {function}")

    def healed(self) -> Self:
        """No call fails, hangs or crashes any more."""
        self._troubles.clear()
        return self

    def without_processes(self) -> Self:
        """Nobody is on any device."""
        self._rows = [row for row in self._rows if row.split()[2:3] not in (["process"], ["sample"])]
        return self

    def write(self, path: Path) -> Self:
        """Make it so; whoever reads sees the old scenario or this one, nothing between."""
        lines = [f"driver {self._driver}"]
        for index, values in enumerate(self._gpus):
            lines += [f"gpu {index} {key} {value}" for key, value in values.items()]
        draft = path.with_name(f"{path.name}.new")
        draft.write_text("\n".join([*lines, *self._rows, *self._troubles, ""]))
        draft.replace(path)
        return self

    def _trouble(self, gpu: int | None, what: str) -> Self:
        self._troubles.append(what if gpu is None else f"gpu {gpu} {what}")
        return self


def build(folder: Path) -> Path:
    """Compile the libraries into the folder; return the folder.

    Raises:
        NoCompiler: there is none, or it fails.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NoCompiler("no C compiler for the stand-in of NVML")
    (folder / CUDA).parent.mkdir(exist_ok=True)
    for library, names in SOURCES.items():
        sources = [str(Path(__file__).parent / name) for name in names]
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(folder / library), *sources, "-lpthread"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NoCompiler(f"the stand-in of {library} does not compile: {done.stderr.strip()[:200]}")
    return folder


def environment(scenario: Path, library: Path, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment in which a program sees the scenario's machine."""
    folders = [str(library), base.get("LD_LIBRARY_PATH", "")]
    return {**base, "NVML_SCENARIO": str(scenario), "LD_LIBRARY_PATH": os.pathsep.join(filter(None, folders))}
