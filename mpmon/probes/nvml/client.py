"""The probe of the main loop: sends a request to the helper at the beginning of a round, and takes the answer at its end if
there is one.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from mpmon.model import Gpu, GpuProcess, MigInstance, ProbeReport, Snapshot, Xid
from mpmon.probes.files import Proc
from mpmon.probes.nvml.pids import Pids
from mpmon.probes.nvml.stale import without_load
from mpmon.probes.nvml.wire import Ask, Look, Settings
from mpmon.probes.nvml.words import GARBLED
from mpmon.rows import shared_by

NAME = "gpus"
"""Name of the row in `Snapshot.probes`."""

PATIENCE_S, FIRST_PATIENCE_S = 0.03, 1.5
"""How long the end of a round waits for the answer to its request; the latter in a report, until the first answer."""

SHORTEST_PAUSE_S = 0.2
"""Shortest pause between two requests: the driver serves one at a time, and training needs it too."""

SILENCE_S = 3.0
"""After this time without an answer, the report says so."""

RESTARTS_AFTER_S = (1.0, 5.0, 30.0)
"""How long to wait before each restart of a helper that crashed; after the last it is not restarted."""

MOST_PROBLEMS = 3
"""Most device problems that are listed in one line."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mpmon.probes.nvml.child import Child


class NvmlProbe:
    """GPUs and the processes that use them: a `mpmon.session.side_probe.SideProbe`."""

    def __init__(
        self,
        proc: Proc,
        *,
        eager: bool = False,
        settings: Settings | None = None,
        restarts_after_s: tuple[float, ...] = RESTARTS_AFTER_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`eager` asks in the first round already: for a report; the first frame of a screen must not wait."""
        self.pcie = False
        """PCIe throughput is on display, so it has to be read."""
        self._eager = eager
        self._settings = settings or Settings()
        self._restarts_after_s = list(restarts_after_s)
        self._now = now
        self._rounds = 0
        self._child: Child | None = None
        self._start_at = float("-inf")
        """When the helper may be started; infinite when never again."""
        self._asked_at = float("-inf")
        self._report: ProbeReport | None = None
        self._driver: str | None = None
        self._tables = _Tables(proc)

    @property
    def helper(self) -> int | None:
        """The pid of the helper, while there is one."""
        return self._child.pid if self._child else None

    def begin(self) -> None:
        """Ask, unless an answer is still due."""
        self._rounds += 1
        if self._rounds == 1 and not self._eager:
            return
        now = self._now()
        if self._child is None and now >= self._start_at:
            self._start()
        if self._child and not self._child.owes and now >= self._asked_at + SHORTEST_PAUSE_S:
            self._asked_at = now
            self._child.ask(Ask(pcie=self.pcie))

    def add(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with what is known about GPUs."""
        look = self._hear()
        if look is not None:
            self._take(look, snapshot)
        if self._report is None:
            return snapshot
        tables = self._tables
        return msgspec.structs.replace(
            snapshot, gpus=tables.gpus, mig_instances=tables.parts, gpu_processes=tables.users, driver=self._driver,
            probes=(*snapshot.probes, self._report),
        )  # fmt: skip

    def close(self) -> None:
        """End the helper."""
        self._start_at = float("inf")
        if self._child:
            self._child.close()
            self._child = None

    def _start(self) -> None:
        # Imported in the second round of a screen: the first frame should not wait for it.
        from mpmon.probes.nvml.child import Child

        try:
            self._child = Child(self._settings)
        except OSError as problem:
            self.close()
            self._tell(f"mpmon's helper for the NVIDIA driver cannot be started: {problem.strerror}", ok=False)

    def _hear(self) -> Look | None:
        child = self._child
        if child is None:
            return None
        first = self._eager and self._report is None
        look = child.hear(FIRST_PATIENCE_S if first else PATIENCE_S)
        if child.ended:
            self._mourn(child)
            return None
        silence = self._now() - self._asked_at
        if look is None and child.owes and silence >= SILENCE_S:
            self._tell(f"no answer from the NVIDIA driver for {silence:.0f} s", ok=False)
        return look

    def _mourn(self, child: Child) -> None:
        """The helper has ended, mostly because the driver's library crashed."""
        how = child.how_it_ended()
        self.close()
        if self._restarts_after_s:
            wait_s = self._restarts_after_s.pop(0)
            self._start_at = self._now() + wait_s
            what_now = f"asked again after {wait_s:g} s"
        else:
            what_now = "not asked again"
        self._tables.mark(how)
        self._tell(f"{how}; {what_now}", ok=False)

    def _take(self, look: Look, snapshot: Snapshot) -> None:
        self._driver = look.driver or self._driver
        problem = self._tables.take(look, snapshot) if look.gpus else None
        told = "; ".join(filter(None, (look.problem, *_problems(self._tables.gpus), problem)))
        self._tell(told or None, ok=look.harmless or not told, seconds=look.seconds)
        if look.final:
            self.close()

    def _tell(self, problem: str | None, *, ok: bool, seconds: float = 0.0) -> None:
        self._report = ProbeReport(name=NAME, ok=ok, seconds=seconds, problem=problem)


class _Tables:
    """The rows of the last look; what did not change stays the very same object."""

    def __init__(self, proc: Proc) -> None:
        self.gpus: tuple[Gpu, ...] = ()
        self.parts: tuple[MigInstance, ...] = ()
        self.users: tuple[GpuProcess, ...] = ()
        self._pids = Pids(proc)
        self._xids: dict[str, tuple[Xid, ...]] = {}
        """Xids reported to earlier helpers, by UUID."""

    def take(self, look: Look, snapshot: Snapshot) -> str | None:
        """New rows; what is wrong with them."""
        gpus = tuple(self._with_earlier_xids(gpu) for gpu in look.gpus)
        users, problem = self._pids.settle(look.processes, snapshot)
        self.gpus = shared_by(lambda row: row.uuid, gpus, self.gpus)
        self.parts = shared_by(lambda row: row.uuid, look.mig_instances, self.parts)
        self.users = shared_by(
            lambda row: (row.pid, row.gpu_uuid, row.mig_instance, row.compute_instance), users, self.users
        )
        return problem

    def mark(self, problem: str) -> None:
        """Mark all rows: there is no helper to ask."""
        self._xids = {gpu.uuid: gpu.xids for gpu in self.gpus}
        self.gpus = tuple(msgspec.structs.replace(gpu, problem=problem) for gpu in self.gpus)
        self.users = without_load(self.users, problem)

    def _with_earlier_xids(self, gpu: Gpu) -> Gpu:
        earlier = self._xids.get(gpu.uuid)
        return msgspec.structs.replace(gpu, xids=earlier + gpu.xids) if earlier else gpu


def _problems(gpus: tuple[Gpu, ...]) -> list[str]:
    """Problems of devices, the first few; one that several share is listed once."""
    by_problem: dict[str, list[str]] = {}
    for gpu in gpus:
        problem = gpu.problem or (GARBLED if gpu.reasons.get("gpu_processes") == GARBLED else None)
        if problem:
            by_problem.setdefault(problem, []).append(str(gpu.index))
    said = [f"GPU {', '.join(numbers)}: {problem}" for problem, numbers in by_problem.items()]
    more = [f"and {len(said) - MOST_PROBLEMS} more"] if len(said) > MOST_PROBLEMS else []
    return said[:MOST_PROBLEMS] + more
