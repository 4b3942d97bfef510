"""The C and C++ frames of those who must move first, for a report.

They are asked for after the diagnosis, which names the threads: where the cause lies in native code, or where the user
wants them of every suspect.  A diagnosis does not rest on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from mpmon.diagnosis.findings import Finding, Observation
from mpmon.diagnosis.rules import native_hang
from mpmon.model import NativeStack, ProbeReport
from mpmon.probes.files import Proc
from mpmon.probes.native import native_stacks


class NativeLooks:
    """At the suspects of each observation."""

    def __init__(self, proc: Proc, now: Callable[[], float], *, always: bool) -> None:
        """`always` is for every finding, and not only where the cause lies in native code."""
        self._proc, self._now, self._always = proc, now, always

    def add(self, observation: Observation) -> Observation:
        """The same observation with the stacks of its suspects."""
        wanted = self._wanted(observation.diagnosis.findings)
        if not wanted:
            return observation
        began, found, problem = self._now(), list[NativeStack](), None
        for pid, tids in wanted.items():
            try:
                found += native_stacks(self._proc, pid, tids, began)
            except OSError as refusal:
                problem = problem or f"pid {pid}: {(refusal.strerror or 'unreadable').lower()}"
        seconds = round(self._now() - began, 4)
        report = ProbeReport(name="native stacks", ok=problem is None, seconds=seconds, problem=problem)
        snapshot = msgspec.structs.replace(
            observation.snapshot, native_stacks=tuple(found), probes=(*observation.snapshot.probes, report)
        )
        return msgspec.structs.replace(observation, snapshot=snapshot)

    def _wanted(self, findings: Iterable[Finding]) -> dict[int, list[int]]:
        """Threads by process, each once."""
        wanted: dict[int, dict[int, None]] = {}
        for finding in findings:
            if self._always or finding.cause == native_hang.CAUSE:
                for suspect in finding.suspects:
                    if suspect.tid is not None and not suspect.dead:
                        wanted.setdefault(suspect.pid, {})[suspect.tid] = None
        return {pid: list(tids) for pid, tids in wanted.items()}
