"""The agent: mpmon on a machine of the job, without a screen, queried through its standard streams.

It watches the processes of one job as `mpmon PID` does, and answers queries with its latest snapshot. Judging is left
to the front end, which sees the whole job. The agent listens on no port and writes no file.

It ends on the first of: the end of its input, the message `End`, an expired lease (no message for a while: a
container's runtime may keep the agent after its carrier has died), SIGTERM, SIGHUP or SIGINT, a blocked output. One
thread samples the job and may block; the communicating thread never waits for it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import threading
import time
from collections import deque
from typing import Any, NamedTuple

import msgspec

from mpmon import __version__
from mpmon.codec import encode_round
from mpmon.diagnosis.roles import is_python
from mpmon.diagnosis.state.history import History
from mpmon.errors import MpmonError, in_words
from mpmon.nodes import wire
from mpmon.nodes.digest import Digest, digest
from mpmon.nodes.here import machine_id, rights
from mpmon.probes import nccl_ras
from mpmon.session.clock import LiveClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from mpmon.model import Snapshot
    from mpmon.source import Watch

CHUNK = 1 << 16

MOST_UNSENT = wire.MOST_PACKED * 2
"""Bytes waiting for the reader; no query causes more."""

END_S = 2.0
"""At the end, how long to wait for the sample under way."""

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
        """`reads` and `writes` are the descriptors to communicate through. `jobs` lists the jobs here. `look` starts
        watching one, given its root and the clock for its moments.
        """
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
        """A query not answered yet, because no new round has been sampled."""
        self._answered = 0
        """The number of the last answered query."""
        self._looked: Snapshot | None = None
        """The round sent as that answer."""
        self._sent: Snapshot | None = None
        """The last round whose facts were sent."""
        self._classes: Digest = ()
        """The classes last sent."""
        self._reasons: dict[str, str] = {}
        """The reasons for unknown figures last sent."""
        self._rights: str | None = None
        """The rights last sent."""
        self._looker: _Looker | None = None
        self._is_asking = False
        """A thread is querying NCCL's RAS."""
        self._of_ras: deque[wire.RasAnswer] = deque()
        """The answers of RAS, to be sent."""
        self._over = False
        self._woken, self._wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> int:
        """Communicate until the end; returns the exit status."""
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
                self._say(wire.Bye(reason=f"no query for {self._lease_s:.0f} s"))
                break
            if now >= beat_at:
                beat_at = now + wire.BEAT_S
                self._beat()
            if self._wait(beat_at - now):
                heard_at = time.monotonic()
            self._answer()
            while self._of_ras:
                self._say(self._of_ras.popleft())
        return self._close()

    # Messages

    def _wait(self, seconds: float) -> bool:
        """Wait for an event or until the time has passed; returns whether the front end sent something."""
        poll = select.poll()
        poll.register(self._reads, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        poll.register(self._writes, select.POLLOUT if self._unsent else 0)  # a closed reader is reported in any case
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
            case wire.AskRas():
                self._ask_ras(message)
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
                # Each frame at once: PIPE_BUF keeps it whole if others write to the same pipe (pipe(7)).
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

    def _ask_ras(self, question: wire.AskRas) -> None:
        """Query RAS in a thread of its own, one query at a time."""
        if question.agent == self._address and not self._is_asking:
            self._is_asking = True
            threading.Thread(target=self._work, args=(question,), name="mpmon ras", daemon=True).start()

    def _work(self, question: wire.AskRas) -> None:
        said = ras_answer(question)
        self._is_asking = False
        self._of_ras.append(said)
        self._wake()

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
        """Answer the pending query as soon as there is a round that was not sent yet."""
        if self._asked is None or self._looker is None:
            return
        if self._looker.problem:
            self._say(wire.Bye(reason=self._looker.problem))
            self._asked = None
        seen = self._looker.newest()
        if self._asked is None or seen is None:
            return
        if self._asked.whole:
            self._sent, self._answered, self._reasons, self._rights = None, 0, {}, None
        is_for_facts = self._asked.facts is None or self._address in self._asked.facts
        if seen.snapshot is (self._sent if is_for_facts else self._looked) and not seen.ended:
            return
        is_same = bool(self._answered) and seen.classes == self._classes
        facts = msgspec.Raw(encode_round(seen.snapshot, self._sent)) if is_for_facts else wire.NOTHING
        self._say(
            wire.Round(
                answers=self._asked.number, follows=self._answered, last=seen.ended,
                age_s=max(0.0, self._clock.now() - seen.snapshot.taken_at),
                classes=None if is_same else seen.classes, **self._figures(seen.snapshot),
                rights=None if seen.rights == self._rights else seen.rights, snapshot=facts,
            )
        )  # fmt: skip
        self._rights = seen.rights
        self._looked, self._classes, self._answered = seen.snapshot, seen.classes, self._asked.number
        self._sent, self._asked = seen.snapshot if is_for_facts else self._sent, None

    def _figures(self, snapshot: Snapshot) -> dict[str, Any]:
        """The machine's figures; the reasons only if they differ from those last sent."""
        row = next(iter(snapshot.figures), None)
        if row is None:
            return {}
        is_same, self._reasons = row.reasons == self._reasons, row.reasons
        values = tuple(getattr(row, name) for name in wire.FIGURES)
        return {"figures": values, "reasons": None if is_same else row.reasons}

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


def ras_answer(question: wire.AskRas) -> wire.RasAnswer:
    """NCCL's RAS answer, queried from this machine: it ends within its deadline, whatever happens."""
    number, is_reached = question.number, True
    try:
        found = nccl_ras.communicators(nccl_ras.ask(nccl_ras.Address(question.host, question.port)))
        said = wire.RasAnswer(answers=number, communicators=found)
        if wire.fits(said):
            return said
        why = "sends more than can be forwarded"
    except nccl_ras.NotReached as problem:
        why, is_reached = str(problem), False
    except (nccl_ras.NoAnswer, nccl_ras.NotUnderstood) as problem:
        why = str(problem)
    except Exception as defect:
        # Any effect of a foreign program's answer must show.
        why = repr(defect)
    return wire.RasAnswer(answers=number, problem=why[: wire.LONGEST_REMARK], reached=is_reached)


class _Seen(NamedTuple):
    """The last round."""

    snapshot: Snapshot
    classes: Digest
    rights: str | None = None
    ended: bool = False
    """No more rounds will follow."""


def _read(history: History, snapshot: Snapshot) -> tuple[int, ...]:
    """The processes that must be readable: the ranks; in a job without ranks, all Python processes."""
    ranks = tuple(pid for pid, role in history.roles.items() if role.is_rank)
    return ranks or tuple(row.pid for row in snapshot.processes if is_python(row))


class _Looker(threading.Thread):
    """Samples the job, in a thread that may block."""

    def __init__(self, watch: Watch, wake: Callable[[], None]) -> None:
        super().__init__(name="mpmon looker", daemon=True)
        self.watch = watch
        self.problem = ""
        """Why it no longer samples, in sentences; empty while it samples."""
        self._wake = wake
        self._newest: _Seen | None = None

    def newest(self) -> _Seen | None:
        """The last round."""
        return self._newest

    def run(self) -> None:
        history = History()
        known: tuple[tuple[int, ...], str | None] = (), None
        try:
            for observation in self.watch:
                history = history.add(observation.snapshot)
                pids = _read(history, observation.snapshot)
                if pids != known[0]:
                    known = pids, rights(pids)
                self._newest = _Seen(observation.snapshot, digest(history, 0), known[1])
                self._wake()
        except Exception as problem:
            self.problem = in_words(problem)
        self._newest = self._newest and self._newest._replace(ended=True)
        self._wake()
