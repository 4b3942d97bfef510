"""The two sources: `LiveWatch` samples a job, `ReplayWatch` plays a recording. Everything after them is the same."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from mpmon.diagnosis import EventLog, History, Memo, diagnose
from mpmon.diagnosis.explanation.basis import basis
from mpmon.diagnosis.findings import Diagnosis, Observation, Verdict
from mpmon.diagnosis.remarks import gpu_spinning
from mpmon.errors import CannotTell, MpmonError
from mpmon.model import ProbeReport, Snapshot
from mpmon.probes.standstill import LeftBehind, Reader, persistently, remember_start
from mpmon.session.cadence import SOON_S, interval_s, levelled
from mpmon.session.clock import LiveClock
from mpmon.session.renewals import Foreseen
from mpmon.snapshot_buffer import SnapshotBuffer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mpmon.alarm import Alarm
    from mpmon.session.nccl_ras import NcclRas
    from mpmon.session.recording import Recorder
    from mpmon.session.sampler import Sampler


KEPT_OF_RECORDING = 256 << 20
"""Bytes of past observations kept while a recording plays: no running job needs the memory."""


GOLDEN = (5**0.5 - 1) / 2
"""The fractional parts of its multiples lie evenly between 0 and 1 and never repeat."""

T = TypeVar("T")


class Observer:
    """The fold all modes share: snapshots in, observations out."""

    def __init__(self, alarm: Alarm | None = None, ras: NcclRas | None = None) -> None:
        """`alarm` sees each diagnosed round, in which its problems are noted; `ras` is told when the job hangs."""
        self._alarm = alarm
        self._ras = ras
        self._history = History()
        self._event_log = EventLog()
        self._memory = Memo()
        self._first_at: float | None = None
        self._number = 0
        self._foreseen: tuple[History, Diagnosis] | None = None

    def foresee(self, snapshot: Snapshot) -> Foreseen:
        """What this snapshot would show."""
        self._foreseen = _, diagnosis = self._judged(snapshot)
        return Foreseen(basis(diagnosis, snapshot), is_hang=diagnosis.verdict is Verdict.HUNG)

    @property
    def ranks(self) -> list[int]:
        """Pids of the ranks in the last snapshot."""
        return [pid for pid, role in self._history.roles.items() if role.is_rank]

    def _judged(self, snapshot: Snapshot) -> tuple[History, Diagnosis]:
        if self._foreseen and self._foreseen[0].snapshot is snapshot:
            return self._foreseen
        history = self._history.add(snapshot)
        return history, diagnose(history, self._memory)

    def see(self, snapshot: Snapshot) -> Observation:
        """The next snapshot with its diagnosis."""
        if self._first_at is None:
            self._first_at = snapshot.taken_at
        if self._alarm:
            snapshot = self._alarm.noted(snapshot)
        self._history, diagnosis = self._judged(snapshot)
        if self._ras:
            may_hang = gpu_spinning.of_all(self.ranks, diagnosis.remarks, snapshot.taken_at)
            self._ras.see(diagnosis.verdict, self.ranks, may_hang=may_hang)
            if self._ras.is_asking:
                diagnosis = msgspec.structs.replace(diagnosis, settled=False)
        self._event_log = self._event_log.add(snapshot, diagnosis)
        self._number += 1
        observation = Observation(
            snapshot=snapshot, diagnosis=diagnosis, number=self._number, watched_s=snapshot.taken_at - self._first_at,
            trend=self._history.trend, events=self._event_log.log,
        )  # fmt: skip
        if self._alarm:
            self._alarm.see(observation)
        return observation


class LiveWatch:
    """A live job, a round each `interval` seconds; without it, as often as the job's state requires: see `cadence`."""

    live = True
    is_here = True
    speed = 1.0
    length: int | None = None

    def __init__(
        self,
        make_sampler: Callable[[Callable[[], float]], Sampler],
        *,
        interval: float | None = 1.0,
        recorder: Recorder | None = None,
        buffer: SnapshotBuffer | None = None,
        clock: LiveClock | None = None,
        alarm: Alarm | None = None,
        ras: NcclRas | None = None,
    ) -> None:
        """`make_sampler` is handed the clock; without a `buffer` no past observations are kept.

        Raises:
            CannotTell: there is no such process.
        """
        self._clock = clock or LiveClock()
        self._reader = Reader()
        self._make_sampler = lambda: persistently(lambda: make_sampler(self._clock.now), self._reader)
        try:
            self._sampler = self._make_sampler()
        except ProcessLookupError as problem:
            raise CannotTell(
                f"there is no process {problem.filename}.", "List the running jobs with: mpmon"
            ) from problem
        self.title = f"pid {self._sampler.root[0]}"
        self._given = interval
        self._interval = interval or SOON_S
        self._cost_s = 0.0
        """CPU time of a round, averaged."""
        self._ranks: list[int] = []
        self._parts = 0
        """Pauses between rounds so far."""
        self._recorder = recorder
        self._alarm = alarm
        self._ras = ras
        self._behind: str | None = None
        """Why the recording is not being written at present."""
        self.buffer = buffer or SnapshotBuffer(0)
        self._stopped = threading.Event()

    def __iter__(self) -> Iterator[Observation]:
        observer = Observer(self._alarm, self._ras)
        try:
            snapshot = self._round(observer)
            while not self._stopped.is_set():
                if self._recorder:
                    snapshot = self._recorded(self._recorder, snapshot)
                observation = observer.see(snapshot)
                self.buffer.add(observation)
                self._interval = self._given or interval_s(observation.diagnosis, observation.watched_s, self._cost_s)
                yield observation
                if not any(not process.ended for process in snapshot.processes):
                    return
                self._pause(0.0 if self._sampler.pending else self._until_next(snapshot))
                snapshot = self._round(observer)
        finally:
            self._sampler.close()
            self._reader.close()

    def _recorded(self, recorder: Recorder, snapshot: Snapshot) -> Snapshot:
        """Record the round; return it with a report if the recording stalls or resumes. That report is not recorded."""
        recorder.write(snapshot)
        before, self._behind = self._behind, recorder.problem
        if not before and not self._behind:
            return snapshot
        report = ProbeReport(name="recorder", ok=not self._behind, seconds=0.0, problem=self._behind)
        return msgspec.structs.replace(snapshot, probes=(*snapshot.probes, report))

    def _round(self, observer: Observer) -> Snapshot:
        """The next snapshot."""
        self._ranks = observer.ranks
        found = self._asked(lambda sampler: self._measured(sampler, observer))
        return self._ras.add(found) if self._ras else found

    def _measured(self, sampler: Sampler, observer: Observer) -> Snapshot:
        """A round, in the reading thread."""
        began = self._clock.cpu_s()
        found = sampler.round(observer.foresee)
        self._cost_s = levelled(self._cost_s, self._clock.cpu_s() - began)
        return found

    def _pause(self, seconds: float) -> None:
        """Wait for the next round; at a different point of each pause, read where the main threads of ranks are."""
        self._parts += 1
        first_s = seconds * (self._parts * GOLDEN % 1) if self._sampler.has_ranks else 0.0
        if first_s and not self._clock.wait(first_s):
            self._asked(lambda sampler: sampler.read_spots())
        elif first_s:
            return
        self._clock.wait(seconds - first_s)

    def _asked(self, work: Callable[[Sampler], T]) -> T:
        """The sampler's answer; if it blocks on a process, the answer of a new sampler that avoids that process."""
        while True:
            self._sampler.note_ranks(self._ranks)
            try:
                return self._reader.do(lambda: work(self._sampler))
            except LeftBehind as problem:
                remember_start(problem.pid, self._sampler.start_ticks(problem.pid))
                self._sampler.close()
                self._sampler = self._make_sampler()

    def _until_next(self, snapshot: Snapshot) -> float:
        """Seconds until the next round; if this one took longer than the interval, the next moment is skipped: two
        rounds nearly an interval apart would not be enough for a verdict, and a third one would be needed.
        """
        spent = self._clock.now() - snapshot.taken_at
        rounds = 1 if spent <= self._interval else 2
        return rounds * self._interval - spent

    def look_now(self) -> None:
        """Look at everything at once."""
        self._sampler.look_now()
        self._clock.wake()

    def attend(self, pid: int | None) -> None:
        """Keep this process's stacks fresh."""
        self._sampler.attend(pid)

    def enter(self, host: str) -> None:
        """No effect: there is only one machine."""

    def stop(self) -> None:
        """End the iteration soon."""
        self._stopped.set()
        self._clock.wake()

    def pause(self, paused: bool) -> None:  # noqa: FBT001
        """No effect: a live job is still watched while the view keeps its picture."""

    def step(self) -> None:
        """No effect."""

    def go(self, number: int) -> None:
        """No effect: past observations are in the buffer."""

    def find_hang(self) -> None:
        """No effect: the future of a live job is unknown."""


class ReplayWatch:
    """A recording, or those of all machines of a job, at its original speed, or as fast as it can be read."""

    live = False
    is_here = False

    def __init__(self, *paths: Path, at_once: bool = False) -> None:
        """`at_once` reads it as fast as possible, keeps no past observations, and ends with the recording.

        Raises:
            UsageError: no such file, not a recording of mpmon, or several that cannot be joined.
        """
        from mpmon.session.recordings import Recordings

        self._recordings = Recordings(paths)
        self.title = self._recordings.title
        self.speed = 1.0
        self.length: int | None = None
        self.buffer = SnapshotBuffer(0 if at_once else KEPT_OF_RECORDING)
        self._at_once = at_once
        self._wishes = threading.Condition()
        """Guards the requests of a view, below."""
        self._stopped = False
        self._playing = True
        self._steps = 0
        self._seeks_hang = False
        self._place = 0
        """Number of the observation that was yielded last, or to which the view went."""

    def __iter__(self) -> Iterator[Observation]:
        if not self._at_once:
            threading.Thread(target=self._count, name="mpmon length", daemon=True).start()
        unread = self._unread()
        while not self._stopped:
            place = self._place
            if self._seeks_hang:
                coming = self._hang(unread)
            else:
                coming = self.buffer.after(place) or next(unread, None)
                if coming is None and self._at_once:
                    return
                if not self._is_due(coming, place):
                    continue
            if coming is not None:
                self._place = coming.number
                yield coming

    def _unread(self) -> Iterator[Observation]:
        observer = Observer()
        for snapshot in self._recordings:
            observation = observer.see(snapshot)
            self.buffer.add(observation)
            yield observation

    def _count(self) -> None:
        # Problems with the file are reported by the iterator that reads it.
        with contextlib.suppress(MpmonError):
            self.length = self._recordings.count()

    def _hang(self, unread: Iterator[Observation]) -> Observation | None:
        """The observation in which the hang began, if it was reached; else the last one."""
        for observation in unread:
            if observation.diagnosis.verdict.value == "hung" or not self._seeks_hang or self._stopped:
                break
        with self._wishes:
            self._seeks_hang = self._playing = False
        return self.buffer.hang() or self.buffer.newest

    def _is_due(self, coming: Observation | None, place: int) -> bool:
        """Wait for the moment of the coming observation; false if there is none, or if a view requested another one."""
        shown_at = self.buffer.moment(place)
        with self._wishes:
            if coming is None:
                self._wishes.wait_for(lambda: self._elsewhere(place))
                return False
            if shown_at is not None:
                gap = coming.snapshot.taken_at - shown_at
                wait_s = min(gap / self.speed, threading.TIMEOUT_MAX)
                self._wishes.wait_for(lambda: self._elsewhere(place) or not self._playing, wait_s)
            self._wishes.wait_for(lambda: self._elsewhere(place) or self._playing or self._steps > 0)
            self._steps = max(0, self._steps - 1)
            return not self._elsewhere(place)

    def _elsewhere(self, place: int) -> bool:
        return self._stopped or self._seeks_hang or self._place != place

    # Requests

    def look_now(self) -> None:
        """No effect."""

    def attend(self, pid: int | None) -> None:
        """No effect."""

    def enter(self, host: str) -> None:
        """No effect: everything that was recorded is already there."""

    def stop(self) -> None:
        """End the iteration soon."""
        with self._wishes:
            self._stopped = True
            self._wishes.notify_all()

    def pause(self, paused: bool) -> None:  # noqa: FBT001
        """Hold the recording, or let it play on."""
        with self._wishes:
            self._playing, self._steps, self._seeks_hang = not paused, 0, False
            self._wishes.notify_all()

    def step(self) -> None:
        """Yield one more observation while paused."""
        with self._wishes:
            self._steps += 1
            self._wishes.notify_all()

    def go(self, number: int) -> None:
        """Continue after this observation."""
        with self._wishes:
            self._place, self._steps, self._seeks_hang = number, 0, False
            self._wishes.notify_all()

    def find_hang(self) -> None:
        """Read on to the hang."""
        with self._wishes:
            self._seeks_hang = True
            self._wishes.notify_all()
