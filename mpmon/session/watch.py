"""The two sources: `LiveWatch` samples a job, `ReplayWatch` plays a recording. Everything after them is the same."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from mpmon.errors import CannotTell
from mpmon.model import Snapshot
from mpmon.session.clock import LiveClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mpmon.diagnosis.findings import Observation
    from mpmon.session.recording import Recorder
    from mpmon.session.sampler import Sampler


class Observer:
    """The fold all modes share: snapshots in, observations out."""

    def __init__(self) -> None:
        # Imported here: the first frame of the screen needs no diagnosis and should not wait for it.
        from mpmon.diagnosis import History, ProcessViews

        self._history = History()
        self._views = ProcessViews()
        self._first_at: float | None = None

    def see(self, snapshot: Snapshot) -> Observation:
        """The next snapshot with its diagnosis."""
        from mpmon.diagnosis import diagnose
        from mpmon.diagnosis.findings import Observation

        if self._first_at is None:
            self._first_at = snapshot.taken_at
        self._history = self._history.add(snapshot)
        diagnosis = diagnose(self._history, self._views)
        watched = snapshot.taken_at - self._first_at
        return Observation(snapshot=snapshot, diagnosis=diagnosis, watched_s=watched, trend=self._history.trend)


class LiveWatch:
    """A live job, a round each `interval` seconds."""

    live = True
    speed = 1.0

    def __init__(
        self,
        make_sampler: Callable[[Callable[[], float]], Sampler],
        *,
        interval: float = 1.0,
        recorder: Recorder | None = None,
    ) -> None:
        """`make_sampler` is handed the clock.

        Raises:
            CannotTell: there is no such process.
        """
        self._clock = LiveClock()
        try:
            self._sampler = make_sampler(self._clock.now)
        except ProcessLookupError as problem:
            raise CannotTell(
                f"there is no process {problem.filename}.", "List the running jobs with: mpmon"
            ) from problem
        self.title = f"pid {self._sampler.root[0]}"
        self._interval = interval
        self._recorder = recorder
        self._stopped = threading.Event()
        self._first: Snapshot | None = None

    def first_snapshot(self) -> Snapshot:
        """The first round, ahead of the iteration, which begins with it."""
        if self._first is None:
            self._first = self._sampler.round()
        return self._first

    def __iter__(self) -> Iterator[Observation]:
        observer = Observer()
        try:
            snapshot = self.first_snapshot()
            while not self._stopped.is_set():
                if self._recorder:
                    self._recorder.write(snapshot)
                yield observer.see(snapshot)
                if not any(not process.ended for process in snapshot.processes):
                    return
                self._clock.wait(0.0 if self._sampler.pending else self._until_next(snapshot))
                snapshot = self._sampler.round()
        finally:
            self._sampler.close()

    def _until_next(self, snapshot: Snapshot) -> float:
        """After a round that took longer than the interval, wait for the moment after next: two rounds nearly an interval
        apart would not be enough for a verdict, and a third one would be needed.
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

    def stop(self) -> None:
        """End the iteration soon."""
        self._stopped.set()
        self._clock.wake()

    def pause(self, paused: bool) -> None:  # noqa: FBT001
        """A live job goes on being watched; the view holds its picture."""

    def step(self) -> None:
        """Without meaning here."""


class ReplayWatch:
    """A recording at the speed it was made, or as fast as it can be read."""

    live = False

    def __init__(self, path: Path, *, at_once: bool = False) -> None:
        self.title = f"recording {path.name}"
        self.speed = 1.0
        self._path = path
        self._at_once = at_once
        self._clock = LiveClock()
        self._stopped = threading.Event()
        self._playing = threading.Event()
        self._playing.set()
        self._steps = threading.Semaphore(0)

    def __iter__(self) -> Iterator[Observation]:
        from mpmon.session.recording import read_recording

        observer = Observer()
        last: float | None = None
        for snapshot in read_recording(self._path):
            if not self._at_once and last is not None:
                self._wait(snapshot.taken_at - last)
            if self._stopped.is_set():
                return
            last = snapshot.taken_at
            yield observer.see(snapshot)

    def _wait(self, seconds: float) -> None:
        if self._playing.is_set():
            self._clock.wait(seconds / self.speed)
        while not self._playing.is_set() and not self._stopped.is_set():
            if self._steps.acquire(timeout=0.05):
                return

    def look_now(self) -> None:
        """Without meaning here."""

    def attend(self, pid: int | None) -> None:
        """Without meaning here."""

    def stop(self) -> None:
        """End the iteration soon."""
        self._stopped.set()
        self._playing.set()
        self._clock.wake()

    def pause(self, paused: bool) -> None:  # noqa: FBT001
        """Hold the recording, or let it play on."""
        if paused:
            self._playing.clear()
        else:
            self._playing.set()
        self._clock.wake()

    def step(self) -> None:
        """Give one more observation while paused."""
        self._steps.release()
