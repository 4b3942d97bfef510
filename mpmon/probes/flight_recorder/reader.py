"""The thread that reads the sources, and its last result."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import msgspec

from mpmon.model import Collective, FlightRecord, ProbeReport, Unknown
from mpmon.probes.flight_recorder.dump import Dump
from mpmon.probes.flight_recorder.source import CannotRead, Look, Source

SHORTEST_PAUSE_S, REST_SHARE, REFRESH_S = 2.0, 20.0, 30.0
"""Pauses between two readings: the minimum, the minimum as a multiple of the last reading's duration, and the usual one while
no rank stops running (for rates of collectives).
"""

SOON_S = 1.0
"""A first reading that takes longer is reported."""

MOST_PROBLEMS = 3
"""Most problems that are reported of one reading."""


class Reading(msgspec.Struct, frozen=True):
    """What all sources reported in one reading."""

    records: tuple[FlightRecord, ...] = ()
    collectives: tuple[Collective, ...] = ()
    unknowns: tuple[Unknown, ...] = ()
    report: ProbeReport | None = None


class FlightRecorder:
    """Reads the sources in a separate thread; `look` only returns the last result."""

    def __init__(self, named: tuple[Source, ...]) -> None:
        self._sources = named
        self._reading = Reading()
        self._wanted = threading.Event()
        self._look: Look | None = None
        self._asked_at = 0.0
        self._not_before = 0.0
        self._busy = False
        self._closed = False
        self._thread: threading.Thread | None = None

    def look(self, look: Look, rested_at: float | None) -> Reading:
        """The last result. `rested_at`: when the last rank without progress stopped; `None` if all make progress."""
        now = look.now()
        rested = rested_at is not None and rested_at >= self._asked_at
        due = rested or self._look is None or now >= self._asked_at + REFRESH_S
        if due and not self._busy and now >= self._not_before:
            self._look, self._asked_at, self._busy = look, now, True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="flight recorder", daemon=True)
                self._thread.start()
            self._wanted.set()
        waits = self._busy and self._reading.report is None and now >= self._asked_at + SOON_S
        return _not_yet(look, now - self._asked_at) if waits else self._reading

    def close(self) -> None:
        """Stop reading. A thread that waits for an answer ends with the program."""
        self._closed = True
        self._wanted.set()

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._closed or self._look is None:
                return
            try:
                self._reading = self._read(self._look)
            except Exception as problem:
                # No exception caused by a server's answer may end the watch; it must be reported.
                report = ProbeReport(name="flight recorder", ok=False, seconds=0.0, problem=repr(problem)[:200])
                self._reading = msgspec.structs.replace(self._reading, report=report)
            self._busy = False

    def _read(self, look: Look) -> Reading:
        started = look.now()
        reading = read_all(self._sources, look)
        seconds = look.now() - started
        self._not_before = look.now() + max(SHORTEST_PAUSE_S, REST_SHARE * seconds)
        problem = reading.unknowns[0].reason if reading.unknowns else None
        report = ProbeReport(name="flight recorder", ok=problem is None, seconds=round(seconds, 4), problem=problem)
        same = reading.collectives == self._reading.collectives
        return msgspec.structs.replace(
            reading, report=report, collectives=self._reading.collectives if same else reading.collectives
        )


def _not_yet(look: Look, seconds: float) -> Reading:
    reason = "no answer from the flight recorder yet"
    return Reading(
        unknowns=(Unknown(table="flight_records", pid=look.pids[0] if look.pids else 0, reason=reason),),
        report=ProbeReport(name="flight recorder", ok=False, seconds=round(seconds, 4), problem=reason),
    )


def read_all(named: Iterable[Source], look: Look) -> Reading:
    """Reads every source once. If two know the same rank, the first counts."""
    found: dict[tuple[int | None, int | None], Dump] = {}
    problems: list[str] = []
    root = look.pids[0] if look.pids else 0
    for source in named:
        for answer in source.read(look):
            if isinstance(answer, CannotRead):
                problems.append(str(answer))
            else:
                found.setdefault((answer.record.rank, answer.record.pid), answer)
    more = [f"and {len(problems) - MOST_PROBLEMS} more"] if len(problems) > MOST_PROBLEMS else []
    reason = "; ".join((*problems[:MOST_PROBLEMS], *more))
    return Reading(
        records=tuple(dump.record for dump in found.values()),
        collectives=tuple(row for dump in found.values() for row in dump.collectives),
        unknowns=(Unknown(table="flight_records", pid=root, reason=reason),) if problems else (),
    )  # fmt: skip
