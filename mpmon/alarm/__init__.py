"""`--on-hang CMD`: runs a command when the job hangs, and when it no longer does.

Every live source passes each diagnosed round to `Alarm.see` (`mpmon.session.watch.Observer`), so all views share one alarm.
`hangs` decides, as a pure function, which rounds call the command; `facts` what the command is given; `command` runs it.

The watch never waits for a call: a thread makes one after the other, each bounded in time and output.  A failure is one
sentence: on the screen among the problems of probes, in its last line, otherwise on standard error.
"""

from __future__ import annotations

import os
import queue
import threading

import msgspec

from mpmon.alarm.command import Command
from mpmon.alarm.facts import variables
from mpmon.alarm.hangs import Call, Hangs
from mpmon.errors import in_words
from mpmon.model import ProbeReport, Snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mpmon.diagnosis.findings import Observation

MOST_WAITING = 2
"""Calls that may wait for the previous one to end: the end of a hang, and the next hang."""

SOON_S = 1.0
"""After this long, `close` says what it is waiting for."""


class _Job(msgspec.Struct):
    """What one call needs."""

    variables: dict[str, str]
    report: str


class Alarm:
    """The user's command, called at the beginning and the end of each hang."""

    def __init__(
        self, command: str, render: Callable[[Observation], str], *, tell: Callable[[str], None],
        echo: Callable[[str], None],
    ) -> None:  # fmt: skip
        """`command` is for the shell, `render` makes the report that it reads; `tell` gets what goes wrong, `echo` each line
        that the command writes.
        """
        self.on_screen = False
        """Nothing may be written to the terminal; it is kept until `close`."""
        self.wrapped: Callable[[list[str]], list[str]] = list
        """The words that run a program as mpmon itself was started."""
        self._line = command
        self._render = render
        self._tell = tell
        self._echo = echo
        self._lock = threading.Lock()
        """Guards the next two attributes."""
        self._hangs = Hangs()
        self._last: Observation | None = None
        self._jobs: queue.Queue[_Job | None] = queue.Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._running: Command | None = None
        self._problem: str | None = None
        """What went wrong with the last call."""
        self._reported: str | None = None

    def noted(self, snapshot: Snapshot) -> Snapshot:
        """The round with the problem of the last call, for a view that has no other place for it."""
        problem = self._problem if self.on_screen else None
        if problem is None and self._reported is None:
            return snapshot
        self._reported = problem
        row = ProbeReport(name="on-hang", ok=problem is None, seconds=0.0, problem=problem)
        return msgspec.structs.replace(snapshot, probes=(*snapshot.probes, row))

    def see(self, observation: Observation) -> None:
        """The next round."""
        with self._lock:
            self._last = observation
            self._answer(self._hangs.add, observation)

    def job_ended(self) -> None:
        """The job has ended; the watch may not have observed that."""
        with self._lock:
            if self._last is not None:
                self._answer(lambda _: self._hangs.end(), self._last)

    def close(self) -> None:
        """Wait for the calls that have started; an interrupt ends them."""
        if self._thread is None:
            return
        try:
            self._jobs.put(None)
            self._thread.join(SOON_S)
            if self._thread.is_alive():
                self._tell("waiting for the command of --on-hang.")
            self._thread.join()
        except BaseException:
            if running := self._running:
                running.kill()
            raise
        if self.on_screen and self._problem:
            self._tell(self._problem)

    # Inside

    def _answer(self, judge: Callable[[Observation], list[Call]], observation: Observation) -> None:
        """Make the calls that are due; no failure here reaches the watch."""
        try:
            for call in judge(observation):
                self._call(call, observation)
        except Exception as problem:
            self._say(f"the command of --on-hang was not called: {in_words(problem)}")

    def _call(self, call: Call, observation: Observation) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="mpmon on-hang", daemon=True)
            self._thread.start()
        try:
            self._jobs.put_nowait(_Job(variables(call, observation), self._render(observation)))
        except queue.Full:
            self._say("the command of --on-hang is still running for an earlier hang: one call was skipped.")

    def _work(self) -> None:
        while job := self._jobs.get():
            command = Command(self.wrapped(["/bin/sh", "-c", self._line]), {**os.environ, **job.variables})
            self._running = command
            try:
                said, problem = command.run(job.report), command.problem
            except Exception as defect:
                said, problem = [], f"the command of --on-hang failed: {in_words(defect)}"
            if not self.on_screen:
                for line in said:
                    self._echo(line)
            elif problem and said:
                problem += f" It said: {said[-1]}"
            self._problem = None
            if problem:
                self._say(problem)

    def _say(self, problem: str) -> None:
        self._problem = problem
        if not self.on_screen:
            self._tell(problem)
