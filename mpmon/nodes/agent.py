"""The agent: mpmon on a machine of the job, without a screen, asked through its standard streams.

It looks at the processes of one job as `mpmon PID` does and answers questions with what it saw last; what that means is for
the front end to judge, which has the whole job before it.  It listens on no port and writes no file.

It ends with the first of: end of its input, the word `End`, a lease that has run out (nobody spoke for so long: a container's
runtime may keep it when its carrier has died), SIGTERM, SIGHUP or SIGINT, an output that nobody reads.  A thread of it looks
at the job and may stand still; the one that speaks never waits for that one.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import threading
import time
from typing import NamedTuple

import msgspec

from mpmon import __version__
from mpmon.codec import encode_round
from mpmon.diagnosis.history import History
from mpmon.errors import MpmonError, in_words
from mpmon.nodes import wire
from mpmon.nodes.digest import Digest, digest
from mpmon.nodes.here import machine_id
from mpmon.session.clock import LiveClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from mpmon.model import Snapshot
    from mpmon.source import Watch

CHUNK = 1 << 16

MOST_UNSENT = wire.MOST_PACKED * 2
"""Bytes that wait for the reader; more is never asked for."""

END_S = 2.0
"""The look under way is waited for so long at the end."""

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class Agent:
    """One agent, from its hello to its end."""

    def __init__(
        self,
        reads: int,
        writes: int,
        *,
        jobs: Callable[[], tuple[wire.JobHere, ...]],
        look: Callable[[wire.Watch, int, LiveClock], Watch],
        host: str,
    ) -> None:
        """Descriptors to speak through; who runs here; how a job is watched, given its root and the clock for its moments."""
        self._reads, self._writes = reads, writes
        self._jobs = jobs
        self._look = look
        self._host = host
        self._address = secrets.token_hex(8)
        self._clock = LiveClock()
        self._lines = wire.Lines()
        self._unpacker = wire.Unpacker[wire.FromFront](wire.FromFront)
        self._messages = 0
        self._unsent = bytearray()
        self._here: tuple[wire.JobHere, ...] = ()
        self._lease_s = wire.LEASE_S
        self._asked: wire.Ask | None = None
        """A question for which there is no new round yet."""
        self._answered = 0
        """The last question that was answered."""
        self._looked: Snapshot | None = None
        """The round of that answer."""
        self._sent: Snapshot | None = None
        """The last round of which the facts were sent."""
        self._classes: Digest = ()
        """What was said of it."""
        self._looker: _Looker | None = None
        self._over = False
        self._woken, self._wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> int:
        """Speak until the end; the exit status."""
        os.set_blocking(self._writes, False)
        for number in ENDING:
            signal.signal(number, self._signalled)
        self._here = self._jobs()
        self._say(
            wire.Hello(
                version=__version__, host=self._host, machine=machine_id(), address=self._address, jobs=self._here
            )
        )
        heard_at = beat_at = time.monotonic()
        while not self._over:
            now = time.monotonic()
            if now - heard_at > self._lease_s:
                self._say(wire.Bye(reason=f"nobody asked for {self._lease_s:.0f} s"))
                break
            if now >= beat_at:
                beat_at = now + wire.BEAT_S
                self._beat()
            if self._wait(beat_at - now):
                heard_at = time.monotonic()
            self._answer()
        return self._close()

    # What comes and goes

    def _wait(self, seconds: float) -> bool:
        """Until something happens or for so long; whether the front end spoke."""
        poll = select.poll()
        poll.register(self._reads, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        poll.register(self._writes, select.POLLOUT if self._unsent else 0)  # a reader that has gone is told in any case
        ready = dict(poll.poll(max(0.0, seconds) * 1000))
        if self._woken in ready:
            os.read(self._woken, CHUNK)
        if self._writes in ready:
            self._send()
        if self._reads not in ready:
            return False
        chunk = os.read(self._reads, CHUNK)
        if not chunk:
            self._end()
        try:
            for message in self._unpacker.feed(self._lines.feed(chunk)):
                self._hear(message)
        except wire.Garbage as problem:
            self._say(wire.Bye(reason=f"what came to the agent is {problem}"))
            self._over = True
        return True

    def _hear(self, message: wire.FromFront) -> None:
        match message:
            case wire.Watch():
                self._begin(message)
            case wire.Alive():
                self._beat(message.number)
            case wire.Ask():
                self._asked = message
            case wire.LookNow():
                if self._looker:
                    self._looker.watch.look_now()
            case wire.End():
                self._end()

    def _say(self, message: wire.Said) -> None:
        self._messages += 1
        for frame in wire.frames(self._messages, message):
            self._unsent += frame
        self._send()

    def _send(self) -> None:
        try:
            while self._unsent:
                # Each frame at once: PIPE_BUF keeps it whole where others write to the same pipe (pipe(7)).
                end = self._unsent.index(b"\n") + 1
                del self._unsent[: os.write(self._writes, self._unsent[:end])]
        except BlockingIOError:
            self._over = len(self._unsent) > MOST_UNSENT
        except OSError:
            self._unsent.clear()
            self._over = True

    def _beat(self, answers: int = 0) -> None:
        if answers or not self._unsent:
            self._say(wire.Beat(answers=answers, clock=self._clock.now()))

    # The job

    def _begin(self, wish: wire.Watch) -> None:
        if self._looker:
            return
        self._lease_s = wish.lease_s
        job = next((job for job in self._here if job.key == wish.key), None)
        if job is None:
            self._say(wire.Bye(reason="no process of the job runs there", exit_status=wire.NO_JOB))
            return
        try:
            self._looker = _Looker(self._look(wish, job.root, self._clock), self._wake)
        except MpmonError as problem:
            self._say(wire.Bye(reason=str(problem), remedy=problem.remedy, exit_status=problem.exit_status))
            return
        self._looker.start()

    def _answer(self) -> None:
        """The question that waits, as soon as there is a round that was not sent yet."""
        if self._asked is None or self._looker is None:
            return
        if self._looker.problem:
            self._say(wire.Bye(reason=self._looker.problem))
            self._asked = None
        seen = self._looker.newest()
        if self._asked is None or seen is None:
            return
        if self._asked.whole:
            self._sent, self._answered = None, 0
        is_for_facts = self._asked.facts is None or self._address in self._asked.facts
        if seen.snapshot is (self._sent if is_for_facts else self._looked) and not seen.ended:
            return
        is_same = bool(self._answered) and seen.classes == self._classes
        facts = msgspec.Raw(encode_round(seen.snapshot, self._sent)) if is_for_facts else wire.NOTHING
        self._say(
            wire.Round(
                answers=self._asked.number, follows=self._answered, last=seen.ended,
                age_s=max(0.0, self._clock.now() - seen.snapshot.taken_at),
                classes=None if is_same else seen.classes, snapshot=facts,
            )
        )  # fmt: skip
        self._looked, self._classes, self._answered = seen.snapshot, seen.classes, self._asked.number
        self._sent, self._asked = seen.snapshot if is_for_facts else self._sent, None

    # The end

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._end()

    def _end(self) -> None:
        self._over = True
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._wakes, b"\0")

    def _close(self) -> int:
        if self._looker:
            self._looker.watch.stop()
            self._looker.join(END_S)
        return 0


class _Seen(NamedTuple):
    """The last round."""

    snapshot: Snapshot
    classes: Digest
    ended: bool = False
    """None will follow."""


class _Looker(threading.Thread):
    """Looks at the job, in a thread that may stand still."""

    def __init__(self, watch: Watch, wake: Callable[[], None]) -> None:
        super().__init__(name="mpmon looker", daemon=True)
        self.watch = watch
        self.problem = ""
        """Why it does not look any more, in sentences; empty while it does."""
        self._wake = wake
        self._newest: _Seen | None = None

    def newest(self) -> _Seen | None:
        """The last round."""
        return self._newest

    def run(self) -> None:
        history = History()
        try:
            for observation in self.watch:
                history = history.add(observation.snapshot)
                self._newest = _Seen(observation.snapshot, digest(history, 0))
                self._wake()
        except Exception as problem:
            self.problem = in_words(problem)
        self._newest = self._newest and self._newest._replace(ended=True)
        self._wake()
