"""Errands in one thread, until a call does not come back: then that thread and that errand are left behind.

The thread that is left behind ends when its errand is done, which may be never; the errand can be done again after that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue

from mpmon.probes.nvml.library import Caller, Library


class Errand:
    """Something that makes calls into the driver."""

    def __init__(self, run: Callable[[Caller], None], deadline_s: float) -> None:
        self.run = run
        self.deadline_s = deadline_s
        """How long one call may take."""
        self.stuck: Stuck | None = None


class Stuck:
    """An errand of which a call has not come back."""

    def __init__(self, call: Caller) -> None:
        self._call = call

    @property
    def name(self) -> str:
        """Which call it is."""
        return self._call.call

    @property
    def since(self) -> float:
        """Since when, seconds since the epoch."""
        return self._call.since


class Walker:
    """Does errands, one after the other."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._worker: _Worker | None = None

    def walk(self, errands: Sequence[Errand]) -> Iterator[Errand]:
        """Do those that are not stuck; gives each that gets stuck, and goes on with the next."""
        left = [errand for errand in errands if errand.stuck is None]
        while left:
            worker = self._worker or _Worker(self._library)
            self._worker = None
            stuck = worker.do(left)
            if stuck is None:
                self._worker = worker
                return
            left = left[left.index(stuck) + 1 :]
            yield stuck


class _Worker:
    """One thread."""

    def __init__(self, library: Library) -> None:
        self._call = Caller(library)
        self._errands: SimpleQueue[Sequence[Errand]] = SimpleQueue()
        self._done: SimpleQueue[Exception | None] = SimpleQueue()
        self._turn = threading.Lock()
        self._present: Errand | None = None
        self._left_behind = False
        threading.Thread(target=self._run, name="nvml", daemon=True).start()

    def do(self, errands: Sequence[Errand]) -> Errand | None:
        """Do these; the one that is stuck, with which this worker is left behind.

        Raises:
            Exception: what an errand raised.
        """
        self._errands.put(errands)
        patience = errands[0].deadline_s
        while True:
            try:
                defect = self._done.get(timeout=patience)
            except Empty:
                stuck, patience = self._leave()
                if stuck:
                    return stuck
                continue
            if defect is not None:
                raise defect
            return None

    def _leave(self) -> tuple[Errand | None, float]:
        """The errand whose call took too long; else how long the present one may still take."""
        with self._turn:
            errand = self._present
            if errand is None:
                return None, 0.01
            left_s = errand.deadline_s - self._call.waited_s
            if left_s > 0:
                return None, left_s
            self._left_behind = True
            errand.stuck = Stuck(self._call)
            return errand, 0.0

    def _run(self) -> None:
        while True:
            for errand in self._errands.get():
                defect = self._run_one(errand)
                if self._left_behind:
                    return
                if defect is not None:
                    self._done.put(defect)
                    return
            self._done.put(None)

    def _run_one(self, errand: Errand) -> Exception | None:
        with self._turn:
            self._present = errand
        try:
            errand.run(self._call)
        except Exception as defect:
            return defect
        finally:
            with self._turn:
                self._present = errand.stuck = None
        return None
