"""The C and C++ frames of threads: of the threads that a finding is about, or of all.

A finding is about few threads, and most stand still: each is read once, and again only if it has run meanwhile, which
the thread rows of every round show.  So a hang costs the reading of its threads only once.

Stacks of an earlier round that are still true are in the next snapshot from the start: if nothing has to be read, the
diagnosis before the reading equals the one after it.

Threads that run are sampled instead, a few in each round, and again in every round: a sample does not hold for the
next.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping

import msgspec

from mpmon.model import NativeStack, ProbeReport, Snapshot, Thread
from mpmon.probes.files import Proc
from mpmon.rows import kept

ROUND_S, REPORT_S = 0.25, 2.0
"""Seconds after which a round begins no further process; a report may take longer."""

PASSING = frozenset({"running", "moved"})
"""Ends of stacks that do not hold for the next round (`mpmon.probes.native.outcomes`)."""

MOST_SAMPLED = 4
"""Most threads sampled in a round: few of the threads that a finding is about spin at once."""

ThreadKey = tuple[int, int]
"""Pid and tid."""


class NativeLooks:
    """The native stacks of one job's threads, round after round."""

    def __init__(self, proc: Proc, *, round_s: float = ROUND_S) -> None:
        self._proc, self._round_s = proc, round_s
        self._rows: dict[ThreadKey, NativeStack] = {}
        self._read_at: dict[ThreadKey, Thread] = {}
        """The thread's row, that is how much it had run, before its stack was read."""
        self._table: tuple[NativeStack, ...] = ()

    def still_true(self, threads: Iterable[Thread]) -> tuple[NativeStack, ...]:
        """The stacks of those of these threads that have not run since they were read; the rest is forgotten."""
        if self._rows:
            now = {key: row for row in threads if (key := (row.pid, row.tid)) in self._rows}
            self._rows = {
                key: row for key, row in self._rows.items()
                if now.get(key) == self._read_at[key] and not _is_passing(row)
            }  # fmt: skip
        return self._known()

    def _known(self) -> tuple[NativeStack, ...]:
        """All rows; the same tuple object as before if no row has changed."""
        self._table = kept(tuple(self._rows.values()), self._table)
        return self._table

    def add(self, snapshot: Snapshot, wanted: Mapping[int, Collection[int]]) -> Snapshot:
        """The snapshot with the stacks of the `wanted` threads, by process, added as far as there is time.

        Stacks that the diagnosis no longer asks for are kept while they are true: it may have stopped because of them.
        """
        if not self._rows and not wanted:
            return snapshot
        threads = {(row.pid, row.tid): row for row in snapshot.threads if row.tid in wanted.get(row.pid, ())}
        missing: dict[int, list[int]] = {}
        for pid, tid in threads.keys() - self._rows.keys():
            missing.setdefault(pid, []).append(tid)
        report = self._read(missing, threads, snapshot.taken_at) if missing else None
        rows = self._known()
        if report is None and rows is snapshot.native_stacks:
            return snapshot
        reports = (report,) if report else ()
        return msgspec.structs.replace(snapshot, native_stacks=rows, probes=(*snapshot.probes, *reports))

    @property
    def any_runs(self) -> bool:
        """Whether one of these threads was running when it was to be read."""
        return any(row.end in PASSING for row in self._rows.values())

    def sample(self, snapshot: Snapshot, wanted: Mapping[int, Collection[int]]) -> Snapshot:
        """The snapshot with one sample of each `wanted` thread, by process, that was running when it was to be read."""
        from mpmon.probes.native import native_samples

        began, problem = time.monotonic(), None
        for pid, tids in self._running(wanted).items():
            if time.monotonic() - began > self._round_s:
                break
            try:
                rows = native_samples(self._proc, pid, tids, snapshot.taken_at)
            except OSError as refusal:
                problem = problem or f"pid {pid}: {(refusal.strerror or 'unreadable').lower()}"
                continue
            self._rows.update({(row.pid, row.tid): row for row in rows})
        seconds = round(time.monotonic() - began, 4)
        report = ProbeReport(name="native samples", ok=problem is None, seconds=seconds, problem=problem)
        return msgspec.structs.replace(snapshot, native_stacks=self._known(), probes=(*snapshot.probes, report))

    def _running(self, wanted: Mapping[int, Collection[int]]) -> dict[int, list[int]]:
        """Threads to sample, by process, `MOST_SAMPLED` in all: suspects first, as in `wanted`, main threads first."""
        keys = [(pid, tid) for pid, tids in wanted.items() for tid in sorted(tids)]
        found: dict[int, list[int]] = {}
        for pid, tid in [key for key in keys if key in self._rows and self._rows[key].end in PASSING][:MOST_SAMPLED]:
            found.setdefault(pid, []).append(tid)
        return found

    def _read(
        self, missing: Mapping[int, list[int]], threads: Mapping[ThreadKey, Thread], taken_at: float
    ) -> ProbeReport:
        from mpmon.probes.native import native_stacks

        began, problem = time.monotonic(), None
        for pid in sorted(missing):
            if time.monotonic() - began > self._round_s:
                break
            try:
                rows = native_stacks(self._proc, pid, sorted(missing[pid]), taken_at)
            except OSError as refusal:
                why = (refusal.strerror or "unreadable").lower()
                problem = problem or f"pid {pid}: {why}"
                rows = [
                    NativeStack(pid=pid, tid=tid, taken_at=taken_at, end="refused", why=why) for tid in missing[pid]
                ]
            for row in rows:
                self._rows[row.pid, row.tid] = row
                self._read_at[row.pid, row.tid] = threads[row.pid, row.tid]
        self._read_at = {key: row for key, row in self._read_at.items() if key in self._rows}
        seconds = round(time.monotonic() - began, 4)
        return ProbeReport(name="native stacks", ok=problem is None, seconds=seconds, problem=problem)


def _is_passing(row: NativeStack) -> bool:
    """Whether it does not hold for the next round."""
    return row.end in PASSING or row.is_sample


def all_threads(threads: Iterable[Thread]) -> dict[int, set[int]]:
    """The threads of a job, by process."""
    found: dict[int, set[int]] = {}
    for row in threads:
        found.setdefault(row.pid, set()).add(row.tid)
    return found
