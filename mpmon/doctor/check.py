"""One question and its answer, and what all checks share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
DEADLINE_S = 5.0
"""Time limit for each program that is started as a test."""


@dataclass(frozen=True)
class Check:
    """One question and its answer."""

    name: str
    ok: bool | None
    """`None` if unknown, or if it does not matter here: a note."""
    because: str
    do_this: str = ""
