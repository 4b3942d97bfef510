"""mpmon's side of the helper: start it, send requests, receive answers, end it. Nothing here waits longer than documented."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from mpmon import start
from mpmon.probes.aside.wire import Answer, Place, Question, Unanswered, Unpacker, WhereIs, packed

PATIENCE_S = 1.0
"""A call is abandoned after this time without progress."""

LOOK_S = 0.25
"""Interval between two checks for progress."""

LONGEST_S = 30.0
"""A call is abandoned after this time even if it makes progress."""

MOST_LEFT = 32
"""Limit of abandoned calls; beyond it nothing is requested until one returns."""

END_S = 0.1
"""How long the helper may take to end before it is left to the kernel."""

RESTARTS = 3
"""How often a helper that ended by itself is restarted; then calls are refused."""

CHUNK = 1 << 18

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Imported where it is used: the helper loads this module too, and starts no process (0.8 MiB).
    import subprocess


class Left:
    """A call that has not returned."""

    def __init__(self, number: int, since: float) -> None:
        self.number = number
        self.since = since
        """By time.monotonic()."""


class Aside:
    """One helper process; started with the first call or by `start`."""

    def __init__(self, *, patience_s: float = PATIENCE_S) -> None:
        """A call whose thread has made no progress for `patience_s` is abandoned."""
        self._patience_s = patience_s
        self._process: subprocess.Popen[bytes] | None = None
        self._asks = self._answers = -1
        self._unpacker = Unpacker()
        self._numbers = 0
        self._left: dict[tuple[str, object], Left] = {}
        """Calls that have not returned, by function and subject."""
        self._posted: dict[int, Answer | None] = {}
        """Posted calls, whose answers are fetched later."""
        self._places: dict[int, int] = {}
        self._starts = 0
        self._closed = False
        self._one_at_a_time = threading.RLock()
        self.cpu_s = 0.0
        """CPU time of all calls, seconds."""

    @property
    def pid(self) -> int | None:
        """Pid of the helper, while there is one."""
        return self._process.pid if self._process else None

    def start(self) -> bool:
        """Start the helper if there is none, so that it is ready when needed; returns whether there is one."""
        with self._one_at_a_time:
            return self._process is not None or self._started()

    def call(self, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Make this call in the helper; returns its result.

        Raises:
            Unanswered: the call does not return, or there is no helper.
            Exception: what the function raised.
        """
        with self._one_at_a_time:
            key = (function.__qualname__, given[1] if len(given) > 1 else None)
            self._hear(0)
            if left := self._left.get(key):
                raise Unanswered(f"no answer for {time.monotonic() - left.since:.0f} s")
            if len(self._left) >= MOST_LEFT:
                raise Unanswered(f"{MOST_LEFT} other requests have no answer")
            number = self._ask(function, given, named)
            answer = self._awaited(number, key)
            self.cpu_s += answer.cpu_s
            if answer.raised is not None:
                raise answer.raised
            return answer.result

    def leaves(self, function: Callable[..., Any], about: Iterable[object]) -> bool:
        """Whether a call of this function about one of these has not returned."""
        return any((function.__qualname__, one) in self._left for one in about)

    def post(self, function: Callable[..., Any], *given: Any) -> int:
        """Have this call made; returns its number, for `posted`.

        Raises:
            Unanswered: there is no helper.
        """
        with self._one_at_a_time:
            number = self._ask(function, given, {})
            self._posted[number] = None
            return number

    def posted(self, number: int, seconds: float = 0.0) -> Answer | None:
        """The answer to a posted call, waiting at most this long; `None` while it has not returned. Each is given once.

        Raises:
            Unanswered: it will never come, because the helper was replaced.
        """
        with self._one_at_a_time:
            until = time.monotonic() + seconds
            while self._posted.get(number, True) is None and self._hear(max(0.0, until - time.monotonic())):
                pass
            if number not in self._posted:
                raise Unanswered("mpmon's helper has ended")
            if self._posted[number] is None:
                return None
            return self._posted.pop(number)

    def forget(self, number: int) -> None:
        """Drop this posted call; its answer is not needed."""
        self._posted.pop(number, None)

    def makes_headway(self, number: int, spent: list[bytes]) -> bool:
        """Whether the call's thread is runnable, or has run since `spent` was last filled; fills it anew."""
        with self._one_at_a_time:
            return self._makes_headway(number, spent)

    def close(self) -> None:
        """Kill the helper without waiting for it: one of its threads may be where no signal reaches."""
        self._closed = True
        process, self._process = self._process, None
        if process:
            _end(process)

    # Inside

    def _started(self) -> bool:
        if self._closed or self._starts > RESTARTS:
            return False
        import subprocess

        self._starts += 1
        try:
            self._process = subprocess.Popen(
                start.command("mpmon.probes.aside.helper", str(os.getpid()), bare=True),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/", start_new_session=True,
            )  # fmt: skip
        except OSError:
            return False
        asks, answers = self._process.stdin, self._process.stdout
        if asks is None or answers is None:
            return False
        self._asks, self._answers = asks.fileno(), answers.fileno()
        os.set_blocking(self._asks, False)
        os.set_blocking(self._answers, False)
        return True

    def _ask(self, function: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]) -> int:
        self._numbers += 1
        self._send(packed(Question(self._numbers, function, given, named)))
        return self._numbers

    def _send(self, frame: bytes) -> None:
        if self._process is None and not self._started():
            raise Unanswered("mpmon's helper process cannot be started")
        left = memoryview(frame)
        until = time.monotonic() + LONGEST_S
        while left:
            try:
                left = left[os.write(self._asks, left) :]
            except BlockingIOError:
                if time.monotonic() > until:
                    self._give_up()
                    raise Unanswered("mpmon's helper does not accept requests") from None
                select.select([], [self._asks], [], LOOK_S)
            except OSError:
                self._give_up()
                raise Unanswered("mpmon's helper has ended") from None

    def _awaited(self, number: int, key: tuple[str, object]) -> Answer:
        """The answer to a request that was just sent."""
        self._posted[number] = None
        began = progressed = time.monotonic()
        spent: list[bytes] = []
        while True:
            answer = self.posted(number, LOOK_S)
            if answer is not None:
                return answer
            now = time.monotonic()
            if self._makes_headway(number, spent):
                progressed = now
            if now - progressed >= self._patience_s or now - began >= LONGEST_S:
                del self._posted[number]
                self._left[key] = Left(number, began)
                raise Unanswered(f"no answer for {now - began:.0f} s")

    def _hear(self, seconds: float) -> bool:
        """Receive from the helper for at most this long; returns whether something arrived."""
        if self._process is None:
            return False
        ready = select.poll()
        ready.register(self._answers, select.POLLIN)
        if not ready.poll(seconds * 1000):
            return False
        try:
            chunk = os.read(self._answers, CHUNK)
        except BlockingIOError:
            return True
        if not chunk:
            self._give_up()
            return False
        for message in self._unpacker.feed(chunk):
            self._take(message)
        return True

    def _take(self, message: Answer | Place) -> None:
        if isinstance(message, Place):
            self._places[message.number] = message.tid
        elif message.number in self._posted:
            self._posted[message.number] = message
        else:
            self._left = {key: left for key, left in self._left.items() if left.number != message.number}

    def _makes_headway(self, number: int, spent: list[bytes]) -> bool:
        if number not in self._places:
            self._send(packed(WhereIs(number)))
            self._hear(LOOK_S)
        tid = self._places.pop(number, 0)
        if not tid:
            # The call has just returned or not begun, or the helper has not reported its thread yet.
            return True
        folder = f"/proc/{self.pid}/task/{tid}"
        try:
            with open(f"{folder}/stat", "rb") as file:
                state = file.read().rpartition(b")")[2].split()[0]
            with open(f"{folder}/schedstat", "rb") as file:
                now = file.read()
        except OSError:
            return True
        ran = spent != [now]
        spent[:] = [now]
        return ran or state not in (b"S", b"D")

    def _give_up(self) -> None:
        """Abandon this helper; its pending requests will not be answered."""
        process, self._process = self._process, None
        self._unpacker = Unpacker()
        self._posted.clear()
        self._left.clear()
        if process:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    from subprocess import TimeoutExpired

    for stream in (process.stdin, process.stdout):
        if stream:
            stream.close()
    process.kill()
    try:
        process.wait(END_S)
    except TimeoutExpired:
        # One of its threads cannot be reached by signals; the object is kept so that nothing waits for it.
        _OUTLIVING.append(process)


_OUTLIVING: list[subprocess.Popen[bytes]] = []
