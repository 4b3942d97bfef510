"""What every part is told: how long, on which jobs, where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.benchmarks.tools import Setting


ACTIVE = "active"
"""The job that moves as training does."""


@dataclass(frozen=True)
class Rig:
    """One run of the benchmarks."""

    setting: Setting
    rounds: int
    seconds: float
    """How long a program that stays is measured in one round."""
    sizes: Sequence[int]
    """Processes of the jobs, for parts that are measured on more than one."""
    hung: bool
    minutes: float
    """How long the one program of the part soak is watched."""

    @property
    def state(self) -> str:
        """What the job does, in a word."""
        return "hung" if self.hung else "running"

    @property
    def jobs(self) -> tuple[str, ...]:
        """What a screen is measured in front of."""
        return ("hung",) if self.hung else ("mostly idle", ACTIVE)
