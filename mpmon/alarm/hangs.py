"""Which rounds call the command: once when a hang begins, and once when it is over. Pure.

A verdict may change for a moment, and a hang may come and go all day.  So a hang is over only when the job has not hung for a
while, and each call doubles that while; an hour without a hang resets it. The suspect may change while a hang lasts: it is
still the same hang, unless a different finding has been first for that long.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from mpmon.diagnosis.explanation.brief import Brief, brief
from mpmon.diagnosis.findings import Observation, Verdict

CALM_S, LONGEST_CALM_S = 30.0, 3600.0
"""How long a job must not have hung before the hang counts as over: initially, and at most."""

Key = tuple[str, frozenset[int]]
"""A cause and its suspects, which identify a finding."""


class Call(NamedTuple):
    """One call of the command."""

    event: Literal["hang", "end"]
    about: Brief
    """The finding; at the end of a hang, the one that was reported when it began."""
    since: float | None
    """When the hang began, seconds since the epoch."""


class Hangs:
    """A fold over rounds."""

    def __init__(self) -> None:
        self._told: dict[Key | None, Call] = {}
        """Calls for the current hang, by finding; empty while there is no hang."""
        self._other: tuple[Key | None, float] | None = None
        """A finding that was not reported yet, and since when it has been first."""
        self._calm_since: float | None = None
        self._calm_s = CALM_S

    def add(self, observation: Observation) -> list[Call]:
        """The calls that are due after this round."""
        now, verdict = observation.snapshot.taken_at, observation.diagnosis.verdict
        if any(event.kind == "job-ended" and event.at == now for event in observation.events):
            return self.end()
        if verdict is Verdict.HUNG:
            self._calm_since = None
            return self._hung(observation, now)
        if verdict is Verdict.UNKNOWN:
            return []
        self._other = None
        self._calm_since = now if self._calm_since is None else self._calm_since
        calm_s = now - self._calm_since
        if calm_s >= LONGEST_CALM_S:
            self._calm_s = CALM_S
        return self.end() if calm_s >= self._calm_s else []

    def _hung(self, observation: Observation, now: float) -> list[Call]:
        key = _key(observation)
        if key in self._told:
            self._other = None
            return []
        if self._told:
            since = self._other[1] if self._other and self._other[0] == key else now
            self._other = (key, since)
            if now - since < self._calm_s:
                return []
        return [self._tell(key, observation)]

    def _tell(self, key: Key | None, observation: Observation) -> Call:
        if self._told:
            self._wait_longer()
        self._other = None
        call = self._told[key] = Call("hang", brief(observation), observation.diagnosis.since)
        return call

    def end(self) -> list[Call]:
        """The job has ended or no longer hangs."""
        if not self._told:
            return []
        first, last = next(iter(self._told.values())), list(self._told.values())[-1]
        self._told = {}
        self._other = None
        self._wait_longer()
        return [Call("end", last.about, first.since)]

    def _wait_longer(self) -> None:
        self._calm_s = min(2 * self._calm_s, LONGEST_CALM_S)


def _key(observation: Observation) -> Key | None:
    findings = observation.diagnosis.findings
    return (findings[0].cause, frozenset(row.pid for row in findings[0].suspects)) if findings else None
