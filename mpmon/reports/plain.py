"""Events, one line each: for logs and screen readers."""

from __future__ import annotations

from datetime import datetime

from mpmon.diagnosis.findings import Event, Observation
from mpmon.printable import in_ascii, written_out


def lines(observation: Observation, *, ascii_only: bool = False) -> list[str]:
    """Lines for what is new in this observation; none if nothing happened."""
    now = observation.snapshot.taken_at
    return [_line(event, ascii_only=ascii_only) for event in observation.events if event.at == now]


def _line(event: Event, *, ascii_only: bool) -> str:
    """`2026-01-01 12:04:31 rank 2 (pid 4102) was killed by SIGKILL (9)`, in the local time of mpmon."""
    moment = datetime.fromtimestamp(event.at).strftime("%Y-%m-%d %H:%M:%S")
    said = written_out(event.summary)
    return f"{moment} {in_ascii(said) if ascii_only else said}"
