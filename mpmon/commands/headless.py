"""Watching a job that has the terminal to itself: a few lines to standard error when a hang begins or ends.

The job matters more than the watch: whatever happens to the watch, the job is waited for.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager

from mpmon.commands import live
from mpmon.errors import in_words, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Generator

    from mpmon.diagnosis.findings import Observation
    from mpmon.launch import Launched
    from mpmon.source import Watch

END_WITHIN_S = 3.0
"""How long to wait for a sample in progress when the job has ended."""


@contextmanager
def watched(given: Namespace, job: Launched, found: live.Extras) -> Generator[None, None, None]:
    """Watch a job for as long as the block lasts."""
    watcher = _Watcher(given, job, found)
    watcher.start()
    try:
        yield
    finally:
        watcher.end()


JUST_ENDS_S = 1.0
"""A job that ends within so many seconds is not missed."""


class _Watcher(threading.Thread):
    def __init__(self, given: Namespace, job: Launched, found: live.Extras) -> None:
        super().__init__(name="mpmon watcher", daemon=True)
        self._given = given
        self._job = job
        self._found = found
        self._watch: Watch | None = None
        self._job_ended = threading.Event()

    def run(self) -> None:
        """Watch until told to stop, or until no process of the job is left."""
        try:
            self._watch = live.looks(self._given, self._job.pid, self._found, "lines")
            for observation in self._watch:
                if self._job_ended.is_set():
                    return
                self._see(observation)
        except Exception as problem:
            # Of one that ends just now nothing was left to watch.
            if not self._job_ended.wait(JUST_ENDS_S):
                tell(f"the job is not watched: {in_words(problem)}")

    def end(self) -> None:
        """The job has ended."""
        self._job_ended.set()
        if self._watch is not None:
            self._watch.stop()
        self.join(END_WITHIN_S)
        if self._found.alarm:
            self._found.alarm.job_ended()

    def _see(self, observation: Observation) -> None:
        from mpmon.reports import notice

        for line in notice.lines(observation, ascii_only=self._given.ascii):
            tell(line)
