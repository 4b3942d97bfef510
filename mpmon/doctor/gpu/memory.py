"""Which process the driver counts memory for: contexts, imported memory, memory held by the dead and by their forked
children.

The processes use only the driver's own CUDA library, so no torch is needed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any

from mpmon.doctor.gpu.case import Case, Need, NotHere, Seen, World, Wrong
from mpmon.doctor.gpu.driver import MIB, asked
from mpmon.doctor.gpu.talking import Program, Silent
from mpmon.doctor.rights import INITIAL_PID_NAMESPACE
from mpmon.model import GpuProcess
from mpmon.probes.nvml.wire import Look

TAKEN_MIB = 256
"""What a case allocates beside its contexts."""
SLACK_MIB = 40
"""The driver allocates in units of 2 MiB, and some for itself with a first allocation."""
SOON_S = 10.0
"""Time limit for the driver to report allocated and freed memory."""
PAUSE_S = 0.3
AFTERWARDS_S = 2.0
"""By then the driver would have taken a dead process off its list."""
DEVICES = "/dev/nvidia"

OTHER_PIDS = "in this container the driver lists processes by pids of another namespace"


class Holder:
    """A process that allocates memory on command."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.pid: int = program.hear()["pid"]

    def do(self, *words: str) -> dict[str, Any]:
        """Raises: Silent."""
        return self.program.order(*words)


@contextlib.contextmanager
def holder() -> Generator[Holder]:
    """A process that has a context.

    Raises:
        Wrong: it cannot do what it is told.
    """
    try:
        with Program("mpmon.doctor.gpu.programs.holds") as program:
            found = Holder(program)
            found.do("context")
            yield found
    except Silent as problem:
        raise Wrong("a process that does with CUDA what it is told", "it failed", str(problem)) from problem


class Measured:
    """Readings of the driver, and the one device that a process uses."""

    def __init__(self, world: World) -> None:
        self._world = world

    def until(self, fits: Callable[[Look], object], expected: str, seen: Callable[[Look], str]) -> Look:
        """The first reading that fits. Raises: Wrong."""
        deadline = time.monotonic() + SOON_S
        while not fits(look := asked(self._world)):
            if time.monotonic() > deadline:
                raise Wrong(expected, seen(look))
            time.sleep(PAUSE_S)
        return look

    def listed(self, pid: int) -> GpuProcess:
        """The row of a process.

        Raises:
            NotHere: the driver lists other pids than ours.
            Wrong: the process has no row.
        """
        deadline = time.monotonic() + SOON_S
        while (row := row_of(look := asked(self._world), pid)) is None:
            if time.monotonic() > deadline:
                unknown = [one for one in look.processes if not os.path.exists(f"/proc/{one.pid}")]
                if unknown or os.readlink("/proc/self/ns/pid") != INITIAL_PID_NAMESPACE:
                    raise NotHere(OTHER_PIDS)
                raise Wrong("a process with a context on the driver's list", f"{len(look.processes)} others")
            time.sleep(PAUSE_S)
        return row


def row_of(look: Look, pid: int) -> GpuProcess | None:
    """The memory that the driver counts for a process."""
    return next((row for row in look.processes if row.pid == pid), None)


def process_mib(look: Look, pid: int) -> float:
    """The same in MiB; 0 if it is not listed."""
    row = row_of(look, pid)
    return (row.memory_bytes or 0) / MIB if row else 0.0


def device_mib(look: Look, uuid: str, *pids: int) -> float:
    """The memory in use on a device, without what is counted for other processes than these: a job that works there at the
    same time takes and frees memory as it likes.
    """
    gpu = next((gpu for gpu in look.gpus if gpu.uuid == uuid), None)
    others = sum(row.memory_bytes or 0 for row in look.processes if row.gpu_uuid == uuid and row.pid not in pids)
    return ((gpu.memory_used_bytes or 0) - others) / MIB if gpu else 0.0


def is_about(value: float, expected: float) -> bool:
    """Equal up to what the driver allocates for itself."""
    return abs(value - expected) <= SLACK_MIB


def context(world: World) -> Seen:
    """A process with a context is listed, with memory."""
    with holder() as one:
        row = Measured(world).listed(one.pid)
        if not row.memory_bytes:
            raise NotHere("the driver does not report the memory of processes")
        mib = row.memory_bytes / MIB
        return Seen(f"listed as {' and '.join(row.kinds)} with {mib:.0f} MiB", {"context_mib": round(mib, 1)})


def counted(world: World) -> Seen:
    """Memory that a process allocates is counted for it, and as used on the device."""
    measured = Measured(world)
    with holder() as one:
        uuid = measured.listed(one.pid).gpu_uuid
        before = asked(world)
        one.do("take", str(TAKEN_MIB))

        def grew(look: Look) -> tuple[float, float]:
            own = process_mib(look, one.pid) - process_mib(before, one.pid)
            return own, device_mib(look, uuid, one.pid) - device_mib(before, uuid, one.pid)

        look = measured.until(
            lambda look: all(is_about(more, TAKEN_MIB) for more in grew(look)),
            f"{TAKEN_MIB} MiB more for the process and on the device",
            lambda look: "{:.0f} and {:.0f} MiB more".format(*grew(look)),
        )
        own, device = grew(look)
        return Seen(f"{own:.0f} and {device:.0f} MiB more", {"process_mib": own, "device_mib": device})


def imported(world: World) -> Seen:
    """Memory that a process imports is counted only for its owner."""
    measured = Measured(world)
    with holder() as owner, holder() as importer:
        measured.listed(importer.pid)
        owner.do("take", str(TAKEN_MIB))
        handle = owner.do("export")["handle"]
        before = process_mib(asked(world), importer.pid)
        importer.do("import", handle)
        time.sleep(PAUSE_S)
        more = process_mib(asked(world), importer.pid) - before
        if more > SLACK_MIB:
            raise Wrong(f"at most {SLACK_MIB} MiB more for the importer of {TAKEN_MIB} MiB", f"{more:.0f} MiB more")
        return Seen(f"{more:.0f} MiB more for the importer of {TAKEN_MIB} MiB", {"importer_mib": more})


def zombie(world: World) -> Seen:
    """A killed process holds nothing and is not listed, even before it is reaped."""
    measured = Measured(world)
    with holder() as one:
        uuid = measured.listed(one.pid).gpu_uuid
        before = device_mib(asked(world), uuid, one.pid)
        one.do("take", str(TAKEN_MIB))
        _kill(one.pid)
        look = measured.until(
            lambda look: device_mib(look, uuid, one.pid) < before + SLACK_MIB and row_of(look, one.pid) is None,
            "the zombie's memory freed, and no zombie listed",
            lambda look: (
                f"{device_mib(look, uuid, one.pid) - before:.0f} MiB more than before, "
                f"{'still' if row_of(look, one.pid) else 'not'} listed"
            ),
        )
        return Seen("freed, and not listed", {"device_mib": round(device_mib(look, uuid, one.pid) - before, 1)})


def forked(world: World) -> Seen:
    """The forked child of a killed process keeps its memory, for which the driver goes on listing the dead one."""
    measured = Measured(world)
    with holder() as one:
        row = measured.listed(one.pid)
        one.do("take", str(TAKEN_MIB))
        before = asked(world)
        child = one.do("fork")["child"]
        _kill(one.pid)
        try:
            time.sleep(AFTERWARDS_S)
            look = asked(world)
            held = process_mib(look, one.pid)
            if held < TAKEN_MIB or row_of(look, child) is not None:
                listed = "is listed" if row_of(look, child) else "is not listed"
                raise Wrong("a dead process that is listed with its memory", f"{held:.0f} MiB; its child {listed}")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        measured.until(
            lambda look: row_of(look, one.pid) is None
            and device_mib(look, row.gpu_uuid, one.pid) < device_mib(before, row.gpu_uuid, one.pid) - TAKEN_MIB + SLACK_MIB,
            "memory freed and nobody listed when the child ends", lambda _: "it stays",
        )  # fmt: skip
        return Seen("kept until the child ended, with the dead process listed", {"held_mib": round(held, 1)})


def device_files(world: World) -> Seen:
    """A process with a context has a device file open, and so has its forked child."""
    if not world.computes:
        raise NotHere("a stand-in has no device files")
    with holder() as one:
        child = one.do("fork")["child"]
        found = {pid: _device_files(pid) for pid in (one.pid, child)}
        if not all(any(name[len(DEVICES) :].isdigit() for name in names) for names in found.values()):
            raise Wrong(
                "a device open in the process and in its child",
                f"{_names(found[one.pid])} in the process, {_names(found[child])} in the child",
            )
        return Seen(f"open: {_names(found[one.pid])}; in the child: {_names(found[child])}")


def _device_files(pid: int) -> list[str]:
    folder = f"/proc/{pid}/fd"
    found: set[str] = set()
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"{folder}/{name}"))
    return sorted(name for name in found if name.startswith(DEVICES))


def _names(files: Sequence[str]) -> str:
    return ", ".join(os.path.basename(name) for name in files) or "none"


def _kill(pid: int) -> None:
    """When this returns it is dead, and a zombie: its parent, which is this process, does not reap it.

    Raises:
        Wrong: the driver keeps it from ending.
    """
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + SOON_S
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if time.monotonic() > deadline:
            raise Wrong(f"the end of a killed process within {SOON_S:g} s", "it is still there")
        time.sleep(0.05)


_MEMORY: frozenset[Need] = frozenset({"memory"})

CASES: Sequence[Case] = (
    Case("context-is-listed", "The driver lists a process with a CUDA context by the pid it has here.", context,
         _MEMORY),
    Case("memory-is-counted", "Memory that a process allocates is counted for it and for the device.", counted,
         _MEMORY),
    Case("imports-are-not-counted", "Memory imported by CUDA IPC is counted only for its owner.", imported,
         _MEMORY),
    Case("a-zombie-holds-nothing", "A killed process holds no memory and is not listed, even while a zombie.", zombie,
         _MEMORY),
    Case("a-forked-child-holds", "A forked child keeps its killed parent's memory, and the parent stays listed.", forked,
         _MEMORY),
    Case("device-files", "A process with a context and its forked child have device files open.", device_files,
         _MEMORY),
)  # fmt: skip
