"""A hang in a few lines, for the log of an unattended job."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from mpmon.diagnosis.findings import Event, Finding, Observation, Suspect
from mpmon.diagnosis.hosts import Hosts
from mpmon.printable import in_ascii, written_out

BEGAN, ENDED = "hang-began", "hang-ended"


def lines(observation: Observation, *, ascii_only: bool = False) -> list[str]:
    """The lines for this observation: the finding when a hang begins, a line when it ends, else nothing."""
    said = [written_out(line) for event in new(observation) for line in _event(event, observation)]
    return list(map(in_ascii, said)) if ascii_only else said


def new(observation: Observation) -> list[Event]:
    """Beginnings and ends of hangs that are new in this observation."""
    now = observation.snapshot.taken_at
    return [event for event in observation.events if event.at == now and event.kind in (BEGAN, ENDED)]


def _event(event: Event, observation: Observation) -> Iterator[str]:
    yield f"{datetime.fromtimestamp(event.at).strftime('%H:%M:%S')} {event.summary}"
    if event.kind == BEGAN:
        for finding in observation.diagnosis.findings[:1]:
            yield from _finding(finding, Hosts(observation.snapshot))


def _finding(finding: Finding, hosts: Hosts) -> Iterator[str]:
    yield f"  {finding.summary}."
    yield f"  cause: {finding.cause} ({finding.certainty.value})"
    yield from (f"  blocked by: {_suspect(suspect, hosts)}" for suspect in finding.suspects[:2])
    yield from (f"  - {line}" for line in finding.advice)


def _suspect(suspect: Suspect, hosts: Hosts) -> str:
    place = f" at {suspect.frame}" if suspect.frame else ""
    return f"{suspect.role} (pid {hosts.pid(suspect.pid)}){place}"
