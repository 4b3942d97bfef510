"""Maps the pids that the driver reports to pids as seen from here.

The driver may report pids of the machine, of the caller's namespace, or of the namespace of the process that uses the GPU; in a
container the three differ (pid_namespaces(7)), and only the pids themselves show which it is.
"""

from __future__ import annotations

import msgspec

from mpmon.model import GpuProcess, Process, Snapshot
from mpmon.probes.files import Proc

NOT_VISIBLE = "not visible here: it has ended, /proc hides it, or it is in another pid namespace"
OTHER_NAMESPACE = (
    "NVML reports pids from another namespace: run mpmon on the host, or its container with --pid=host (hostPID: true in "
    "Kubernetes)"
)

NVIDIA_DEVICE = "device:/dev/nvidia"
NO_GPU = frozenset({"", "-1", "NoDevFiles"})
"""Values of CUDA_VISIBLE_DEVICES that hide every GPU."""


class Pids:
    """Adds names to the driver's rows and, where it is certain, the pids as seen from here."""

    def __init__(self, proc: Proc) -> None:
        self._proc = proc
        self._files: dict[int, str] = {}

    def settle(
        self, rows: tuple[GpuProcess, ...], snapshot: Snapshot
    ) -> tuple[tuple[GpuProcess, ...], str | None]:  # fmt: skip
        """The rows as they are seen from here, and what is wrong with all of them together."""
        job = {process.pid for process in snapshot.processes}
        inner = _inner_pids(snapshot.processes)
        self._forget({row.pid for row in rows} - job)
        settled = tuple(row if row.pid in job else self._stranger(row, inner) for row in rows)
        lost = any("pid" in row.reasons for row in settled) and not any(row.pid in job for row in settled)
        return settled, OTHER_NAMESPACE if lost and _should_be_on_a_gpu(snapshot) else None

    def _stranger(self, row: GpuProcess, inner: dict[int, int | None]) -> GpuProcess:
        """A row whose pid belongs to no process of the job."""
        name = self._name(row.pid)
        if name is not None:
            return msgspec.structs.replace(row, name=name)
        if pid := inner.get(row.pid):
            return msgspec.structs.replace(row, pid=pid)
        return msgspec.structs.replace(row, reasons={**row.reasons, "pid": NOT_VISIBLE, "name": NOT_VISIBLE})

    def _name(self, pid: int) -> str | None:
        path = self._files.setdefault(pid, self._proc.path(pid, "comm"))
        for _ in range(2):
            try:
                return self._proc.reread(path).decode("utf-8", "replace").rstrip("\n")
            except OSError:
                # The file of a process that has ended: its pid may have been reused.
                self._proc.forget(path)
        return None

    def _forget(self, strangers: set[int]) -> None:
        for pid in self._files.keys() - strangers:
            self._proc.forget(self._files.pop(pid))


def _inner_pids(processes: tuple[Process, ...]) -> dict[int, int | None]:
    """Pids of the job in its own namespace, with the pid as seen from here; `None` for a pid of two processes."""
    found: dict[int, int | None] = {}
    for process in processes:
        if process.namespace_pid is not None:
            found[process.namespace_pid] = None if process.namespace_pid in found else process.pid
    return found


def _should_be_on_a_gpu(snapshot: Snapshot) -> bool:
    """A process of the job has a GPU open, or was given some."""
    given = (process.environment or {} for process in snapshot.processes)
    return any(handle.object.startswith(NVIDIA_DEVICE) for handle in snapshot.handles) or any(
        environment.get("CUDA_VISIBLE_DEVICES", "") not in NO_GPU for environment in given
    )
