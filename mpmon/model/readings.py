"""How the reading itself went, and what could not be read."""

from __future__ import annotations

from mpmon.model.columns import Pid, Row

NOT_PYTHON = "not a Python process"
"""The `Unknown.reason` of stacks that do not exist."""


class ProbeReport(Row, frozen=True, kw_only=True):
    """How one probe's last run went."""

    name: str
    ok: bool
    seconds: float
    problem: str | None = None


class Unknown(Row, frozen=True, kw_only=True):
    """One thing that could not be read, and why, in words a user understands."""

    table: str
    """The table that misses something: `stacks`, `blocked`, `processes` …"""
    pid: Pid
    reason: str
    gone: bool = False
    """The process ended while it was read: no right or option would change that."""

    @property
    def not_python(self) -> bool:
        """It has no Python frames to read."""
        return self.reason == NOT_PYTHON
