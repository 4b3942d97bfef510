"""The GPU probe as the loop uses it, on a machine of the test's own, without its pauses."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from mpmon.model import Gpu, GpuProcess, ProbeReport, Snapshot
from mpmon.probes.files import Proc
from mpmon.probes.nvml import client
from mpmon.probes.nvml.client import NvmlProbe
from mpmon.probes.nvml.wire import Settings
from tests.builders import snapshot
from tests.nvml import Scenario
from tests.nvml.fixture import Standin
from tests.patience import LONGEST_S, becomes

EVERYTHING = Settings(
    deadline_s=LONGEST_S, start_deadline_s=LONGEST_S, lists_every_s=0.0, slowly_every_s=0.0, retry_s=0.0
)
"""Every look asks everything, and waits for it: a machine that is busy elsewhere is no driver that blocks."""
IMPATIENT = msgspec.structs.replace(EVERYTHING, deadline_s=0.5, start_deadline_s=0.5)
"""For calls that never come back."""


class Looks:
    """Rounds on what a scenario says, until `close`."""

    def __init__(self, nvml: Standin, settings: Settings = EVERYTHING, **more: object) -> None:
        self._nvml = nvml
        self._proc = Proc()
        self.probe = NvmlProbe(self._proc, eager=True, settings=settings, **more)  # type: ignore[arg-type]
        self.last = snapshot()

    def at(self, scenario: Scenario, now: Snapshot | None = None) -> Snapshot:
        """A round in which the driver says this."""
        self._nvml.say(scenario)
        return self.round(now)

    def round(self, now: Snapshot | None = None) -> Snapshot:
        """One more round."""
        self.probe.begin()
        self.last = self.probe.add(now or snapshot())
        return self.last

    def until(self, happened: Callable[[Snapshot], object]) -> Snapshot:
        """Rounds until this is so."""
        assert becomes(lambda: happened(self.round()), pause_s=0.0), self.last
        return self.last

    @property
    def report(self) -> ProbeReport:
        """Of the last round."""
        (report,) = self.last.probes
        return report

    @property
    def problem(self) -> str:
        return self.report.problem or ""

    def gpu(self, index: int = 0) -> Gpu:
        return next(gpu for gpu in self.last.gpus if gpu.index == index)

    def user(self, pid: int) -> GpuProcess:
        (found,) = (row for row in self.last.gpu_processes if row.pid == pid)
        return found

    def close(self) -> None:
        self.probe.close()
        self._proc.close()


def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask as often as a test likes, and wait as long as it takes."""
    monkeypatch.setattr(client, "SHORTEST_PAUSE_S", 0.0)
    monkeypatch.setattr(client, "PATIENCE_S", LONGEST_S)
    monkeypatch.setattr(client, "FIRST_PATIENCE_S", LONGEST_S)
