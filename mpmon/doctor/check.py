"""One question and its answer, and what all checks share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
DEADLINE_S = 5.0
"""For each thing that is started to see whether it works."""


@dataclass(frozen=True)
class Check:
    """One question and its answer."""

    name: str
    ok: bool | None
    """`None` when it could not be found out, or does not matter here."""
    because: str
    do_this: str = ""
