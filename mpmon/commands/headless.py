"""Watching a job that has the terminal to itself: a few lines to standard error when a hang begins or ends.

The job matters more than the watch: whatever happens to the watch, the job is waited for.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import contextmanager

from mpmon.commands import live
from mpmon.console import GLYPHS
from mpmon.errors import in_words, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Generator

    from mpmon.diagnosis.findings import Observation
    from mpmon.launch import Launched
    from mpmon.source import Watch

END_WITHIN_S = 3.0
"""A look under way is waited for so long when the job has ended."""

HOOK_S = 60.0
"""The user's command for a hang is ended after so long."""


@contextmanager
def watched(given: Namespace, job: Launched, found: live.Extras) -> Generator[None, None, None]:
    """Watch a job for as long as the block lasts."""
    watcher = _Watcher(given, job, found)
    watcher.start()
    try:
        yield
    finally:
        watcher.end()


class _Watcher(threading.Thread):
    def __init__(self, given: Namespace, job: Launched, found: live.Extras) -> None:
        super().__init__(name="mpmon watcher", daemon=True)
        self._given = given
        self._job = job
        self._found = found
        self._watch: Watch | None = None
        self._job_ended = threading.Event()
        self._hooks: list[threading.Thread] = []

    def run(self) -> None:
        """Watch until told to leave, or until nothing of the job lives."""
        try:
            self._watch = live.looks(self._given, self._job.pid, self._found, "lines")
            for observation in self._watch:
                if self._job_ended.is_set():
                    return
                self._see(observation)
        except Exception as problem:
            if not self._job_ended.is_set():
                tell(f"the job is not watched: {in_words(problem)}")

    def end(self) -> None:
        """The job has ended."""
        self._job_ended.set()
        if self._watch is not None:
            self._watch.stop()
        self.join(END_WITHIN_S)
        for hook in self._hooks:
            hook.join(HOOK_S)

    def _see(self, observation: Observation) -> None:
        from mpmon.reports import notice, text

        for line in notice.lines(observation, ascii_only=self._given.ascii):
            tell(line)
        if self._given.on_hang and any(event.kind == notice.BEGAN for event in notice.new(observation)):
            report = text.render(observation, ascii_only=self._given.ascii)
            command = self._job.with_signals_of_before(["/bin/sh", "-c", self._given.on_hang])
            hook = threading.Thread(target=_call, args=(command, report), daemon=True)
            hook.start()
            self._hooks = [*(other for other in self._hooks if other.is_alive()), hook]


def _call(command: list[str], report: str) -> None:
    """Run the user's command; what it writes goes to standard error, as the job's output is not mpmon's to touch."""
    try:
        called = subprocess.run(
            command, input=report + "\n", text=True, errors=GLYPHS, stdout=sys.stderr,
            start_new_session=True, timeout=HOOK_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        tell(f"the command of --on-hang did not end within {HOOK_S:.0f} s")
    except OSError as problem:
        tell(f"the command of --on-hang could not be started: {problem}")
    else:
        if called.returncode:
            tell(f"the command of --on-hang ended with status {called.returncode}")
