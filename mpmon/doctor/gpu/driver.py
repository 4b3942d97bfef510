"""NVIDIA's library compared with nvidia-smi, and what querying it costs. Allocates no GPU memory."""

from __future__ import annotations

import contextlib
import csv
import ctypes
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median

from mpmon.doctor.gpu.case import ANSWER_S, Case, NotHere, Seen, World, Wrong
from mpmon.model import Gpu
from mpmon.probes.nvml.wire import Look

CHEAP_MS = 10.0
"""The time limit for all calls of a round on one device together; a live screen makes them once a second."""

TIMES = 30
"""How often a call is made to measure its cost."""

MIB = 1 << 20

SMI: dict[str, tuple[Callable[[Gpu], float | None], float]] = {
    "memory.total": (lambda gpu: _mib(gpu.memory_total_bytes), 1.0),
    "memory.used": (lambda gpu: _mib(gpu.memory_used_bytes), 64.0),
    "power.limit": (lambda gpu: gpu.power_limit_watts, 1.0),
    "temperature.gpu": (lambda gpu: gpu.temperature_celsius, 4.0),
    "clocks.max.sm": (lambda gpu: gpu.sm_clock_max_mhz, 0.0),
}
"""The figures queried from nvidia-smi, mpmon's counterparts, and the difference allowed between two moments."""


def asked(world: World) -> Look:
    """What the driver says.

    Raises:
        Wrong: it does not respond, or reports trouble with a device.
    """
    look = world.look()
    troubled = [gpu.problem for gpu in look.gpus if gpu.problem]
    if look.problem or troubled or not look.gpus:
        raise Wrong("GPUs without trouble", "trouble, or none", look.problem or "; ".join(filter(None, troubled)))
    return look


def answers(world: World) -> Seen:
    """Every query has an answer, or a reason why there is none."""
    look = asked(world)
    unexplained = [
        field for gpu in look.gpus for field in type(gpu).__struct_fields__
        if getattr(gpu, field) is None and field not in {"problem", "blocked_since"} and field not in gpu.reasons
    ]  # fmt: skip
    if unexplained:
        raise Wrong("a reason for each missing figure", f"none for {', '.join(sorted(set(unexplained)))}")
    missing = sorted({field for gpu in look.gpus for field in gpu.reasons if not field.startswith("pcie")})
    words = f"all queried figures but {', '.join(missing)}" if missing else "all queried figures"
    return Seen(f"{words}, of {len(look.gpus)} GPU(s)", {"gpus": len(look.gpus), "seconds": look.seconds})


def as_nvidia_smi(world: World) -> Seen:
    """The same figures as NVIDIA's own program, up to what changes between two moments."""
    smi = _smi(world)
    gpus = {gpu.uuid: gpu for gpu in asked(world).gpus}
    furthest = dict.fromkeys(SMI, 0.0)
    compared = 0
    for uuid, *values in smi:
        if uuid not in gpus:
            raise Wrong("the GPUs that nvidia-smi has", "one of them is not there")
        for name, value in zip(SMI, values, strict=True):
            of, bound = SMI[name]
            own = of(gpus[uuid])
            if own is None or not _is_number(value):
                continue
            compared += 1
            furthest[name] = max(furthest[name], abs(own - float(value)))
            if abs(own - float(value)) > bound:
                raise Wrong(f"{name} of {value} as nvidia-smi says", f"{own:g}")
    if not compared:
        raise NotHere("nvidia-smi and the driver have no figure in common")
    return Seen(f"{compared} figures agree", {f"{name} differs by": by for name, by in furthest.items()})


def _smi(world: World) -> list[list[str]]:
    """A row per device: its UUID and the values of `SMI`. Raises: NotHere, Wrong."""
    if world.smi is None or not world.computes:
        raise NotHere("there is no nvidia-smi")
    query = f"--query-gpu=uuid,{','.join(SMI)}"
    try:
        done = subprocess.run(
            [world.smi, query, "--format=csv,noheader,nounits"], capture_output=True, text=True, timeout=ANSWER_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise Wrong("an answer of nvidia-smi", "none", str(problem)) from problem
    if done.returncode:
        raise Wrong("an answer of nvidia-smi", f"status {done.returncode}", done.stdout.strip()[:200])
    return [[word.strip() for word in row] for row in csv.reader(done.stdout.splitlines()) if row]


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _mib(size: int | None) -> float | None:
    return None if size is None else size / MIB


def costs(world: World) -> Seen:
    """A round on one device is cheap: every call is made many times, in a process of its own."""
    from mpmon.doctor.gpu.talking import Program, Silent

    asked(world)
    try:
        with Program("mpmon.doctor.gpu.driver") as program:
            figures: dict[str, float] = program.hear()["figures"]
    except Silent as problem:
        raise Wrong("a time for each call", "none", str(problem)) from problem
    together = sum(figures[name] for name in figures if name.startswith("always")) / 1000
    if together > CHEAP_MS:
        raise Wrong(f"at most {CHEAP_MS:g} ms for all calls of a round on one device", f"{together:.1f} ms")
    return Seen(f"{together:.2f} ms for all calls of a round on one device", figures)


def main() -> None:
    """In the process of its own: time each query of the first device, and print the times."""
    import json
    import sys

    from mpmon.probes.nvml.calls import Caller, Functions, NoValue
    from mpmon.probes.nvml.fields import ALWAYS, PCIE, SLOWLY
    from mpmon.probes.nvml.processes import LISTS, ProcessLists, Samples

    call = Caller(Functions())
    if code := call.start():
        sys.exit(f"the library does not start: {code}")
    handle = call.handle("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(0))
    lists, samples = ProcessLists(), Samples()
    questions: dict[str, Callable[[], object]] = {}
    for kind, readers in (("always", ALWAYS), ("slowly", SLOWLY), ("pcie", PCIE)):
        for reader in readers:
            questions[f"{kind} {reader.fields[0]}"] = lambda read=reader.read: read(call, handle)
    for kind in LISTS:
        questions[f"always list {kind}"] = lambda kind=kind: lists.read(call, handle, kind, lambda _: True)
    questions["always samples"] = lambda: samples.read(call, handle, set(), time.time())

    def spent_us(ask: Callable[[], object]) -> Iterator[float]:
        for _ in range(TIMES):
            began = time.perf_counter()
            with contextlib.suppress(NoValue):
                ask()
            yield (time.perf_counter() - began) * 1e6

    figures = {f"{name}, us": round(median(spent_us(ask)), 1) for name, ask in questions.items()}
    print(json.dumps({"figures": figures}), flush=True)


CASES: Sequence[Case] = (
    Case("driver-answers", "The driver answers mpmon's queries, or gives a reason for each missing answer.", answers),
    Case("figures-as-nvidia-smi", "Memory, power, temperature and clocks match nvidia-smi.", as_nvidia_smi),
    Case("calls-are-cheap", f"All calls of a round on one device take at most {CHEAP_MS:g} ms.", costs),
)

if __name__ == "__main__":
    main()
