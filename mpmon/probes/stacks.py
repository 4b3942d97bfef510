"""Python frames of every thread, by mpmon's own reader of interpreters, and by py-spy.

Our own reader handles the interpreters it knows exactly, CPython 3.10 to 3.14 with the GIL, in about a millisecond
(`interpreter.reader`); for any other it says why not, and py-spy is run.

py-spy is run once per process, because `py-spy dump --json --subprocesses` returns only the parent and one unreadable
child fails the whole call (py-spy 0.4.3). Always `--nonblocking`: the default stops the target for 1 to 4 ms per dump
and can leave it stopped. For a thread whose counters did not move during the dump the frames are exact; otherwise
frames of different moments may be mixed, and the row says so.

A job started with `mpmon run --dump-stacks` is asked to write its stacks if py-spy fails.

A py-spy dump costs about 10 ms of CPU, so the sampler requests one only when a blocked process has run since the last.
"""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path

import msgspec

from mpmon.model import BOTH, NOT_PYTHON, SENT_CODE, Frame, Stack, Unknown
from mpmon.probes.aside import Unanswered, in_turn
from mpmon.probes.calls import Call, Numbers, bounded, rows
from mpmon.probes.door import Refused
from mpmon.probes.files import Proc
from mpmon.probes.interpreter.codes import LONGEST_TEXT
from mpmon.probes.interpreter.reader import RAN_ON, Reading, read_stacks
from mpmon.probes.interpreter.tids import ThreadIds, run_counters
from mpmon.probes.memory import may_be_read
from mpmon.probes.rights import why_unreadable
from mpmon.probes.shim.stacks import ask_at

DEADLINE_S = 5.0
"""Time limit for a dump."""

END_S = 0.2
"""Time limit for a killed py-spy to end."""

TORN, ATTEMPTS = "Failed to get stack traces", 3
"""What py-spy says of frames that changed while it followed them, as in a loop of short calls (measured: up to one dump
in five), and how many attempts are then made in all.
"""

TOO_FAST = (TORN, RAN_ON)
"""What either reader says of such frames."""

OPINIONS = 3
"""How often both readers read before they are said to differ."""

PARALLEL = 2
"""Most parallel dumps: more would take CPU from the job."""

OUTPUT_LIMIT = 1 << 25
"""Most bytes read of one dump; a runaway recursion prints a thousand frames, 1 MB."""

CHUNK = 1 << 16
"""Bytes per read: what a pipe holds (pipe(7))."""

LIMITS = {resource.RLIMIT_AS: 1 << 29, resource.RLIMIT_CORE: 0}
"""Limits of py-spy (getrlimit(2)): a job may have mappings whose list alone takes a gigabyte, while 40 MB are normally
enough; and no core file, which would contain the job's data.
"""


class _DumpThread(msgspec.Struct):
    thread_name: str | None = None
    thread_id: int | None = None
    os_thread_id: int | None = None
    active: bool = False
    owns_gil: bool = False
    frames: list[Call] = []


class BadDump(ValueError):
    """Output of py-spy that is cut or garbled."""


_decoder = msgspec.json.Decoder(list[_DumpThread])


class StackProbe:
    """Reads stacks; runs py-spy at most `PARALLEL` at a time, each with a deadline of its own."""

    def __init__(
        self, proc: Proc, *, by_itself: bool = False, executable: str | None = None, deadline_s: float = DEADLINE_S
    ) -> None:
        """`by_itself` leaves to py-spy only what mpmon's own reader cannot read."""
        self._proc = proc
        self._by_itself = by_itself
        self.dumps = 0
        """How often py-spy was run for a process so far."""
        self._executable = executable or find_py_spy()
        self._deadline_s = deadline_s
        self._running: set[subprocess.Popen[bytes]] = set()
        self._numbers: dict[int, Numbers] = {}
        self._closed = False

    @property
    def problem(self) -> str | None:
        """Why no stack can be read at all."""
        return None if self._executable else "py-spy is not installed beside mpmon: pip install 'py-spy>=0.4.3'"

    def dump(
        self, pids: Iterable[int], now: Callable[[], float]
    ) -> tuple[dict[int, tuple[Stack, ...]], dict[int, Unknown]]:
        """Stacks by pid, and for the others why there are none. `now` gives seconds since the epoch."""
        wanted = list(pids)
        stacks: dict[int, tuple[Stack, ...]] = {}
        unknowns: dict[int, Unknown] = {}
        if self._by_itself and wanted:
            readings = in_turn(read_stacks, self._proc, {pid: {"taken_at": now()} for pid in wanted})
            wanted = [pid for pid in wanted if not _take(pid, readings[pid], stacks, unknowns)]
        if self.problem:
            return stacks, unknowns | {pid: Unknown(table="stacks", pid=pid, reason=self.problem) for pid in wanted}
        self.dumps += len(wanted)
        if not wanted:
            return stacks, unknowns
        with ThreadPoolExecutor(max_workers=PARALLEL) as pool:
            try:
                for pid, result in zip(wanted, pool.map(self._dump_one, wanted, repeat(now)), strict=False):
                    if isinstance(result, Unknown):
                        unknowns[pid] = result
                    else:
                        stacks[pid] = result
            except BaseException:  # Ctrl-C: the pool must not wait for dumps that may take seconds
                self.close()
                raise
        return stacks, unknowns

    def second(
        self, pid: int, stacks: tuple[Stack, ...], tids: Collection[int], now: Callable[[], float]
    ) -> tuple[tuple[Stack, ...], Unknown | None]:
        """The stacks of a process that our own reader has read, with those of `tids` read by py-spy as well.

        If the two differ, both read again; if they never agree, the result is no stacks, and why. If py-spy cannot be
        run, the stacks are returned as they were.
        """
        for _ in range(OPINIONS):
            before = run_counters(self._proc, pid)
            others = self._others(pid, now)
            if others is None:
                return stacks, None
            after = run_counters(self._proc, pid)
            own = [row for row in stacks if row.tid in tids]
            moved = {row.tid for row in own if not row.exact or before.get(row.tid) != after.get(row.tid)}
            if all(_agree(row, others.get(row.ident), ran=row.tid in moved) for row in own):
                return tuple(msgspec.structs.replace(row, reader=BOTH) if row in own else row for row in stacks), None
            try:
                stacks = read_stacks(self._proc, pid, now()).stacks or stacks
            except OSError:
                return stacks, None
        return (), Unknown(table="stacks", pid=pid, reason="mpmon and py-spy read different stacks of it")

    def _others(self, pid: int, now: Callable[[], float]) -> dict[int | None, Stack] | None:
        """py-spy's stacks, by pthread id; `None` if it gives none."""
        if self.problem:
            return None
        self.dumps += 1
        taken_at, status, output, _ = self._ask(pid, now)
        try:
            rows = parse_dump(output, pid, taken_at, ThreadIds(self._proc, pid)) if status == 0 else ()
        except BadDump:
            return None
        return {row.ident: row for row in rows} or None

    def forget(self, pid: int) -> None:
        """This process has ended."""
        self._numbers.pop(pid, None)

    def close(self) -> None:
        """End every py-spy that still runs."""
        self._closed = True
        for process in list(self._running):
            process.kill()

    def _dump_one(self, pid: int, now: Callable[[], float]) -> tuple[Stack, ...] | Unknown:
        before = run_counters(self._proc, pid)
        if not before:
            return Unknown(table="stacks", pid=pid, reason="ended", gone=True)
        if self._proc.aside:
            try:
                may_be_read(self._proc, pid)
            except Unanswered as problem:
                # py-spy would wait for the lock of its mappings, and could not even be killed.
                return Unknown(table="stacks", pid=pid, reason=f"its memory cannot be read: {problem.strerror}")
            except OSError:
                pass  # py-spy's own words tell more
        taken_at, status, output, words = self._ask(pid, now)
        if status != 0:
            return self._ask_itself(pid, now, self._refused(pid, status, words))
        try:
            ids, numbers = ThreadIds(self._proc, pid), self._numbers.setdefault(pid, Numbers())
            stacks = parse_dump(output, pid, taken_at, ids, numbers)
        except BadDump as problem:
            return Unknown(table="stacks", pid=pid, reason=f"py-spy's answer could not be used: {problem}")
        if not stacks:
            return Unknown(table="stacks", pid=pid, reason="py-spy found no thread in it")
        after = run_counters(self._proc, pid)
        moved = {tid for tid in before if after.get(tid) != before[tid]}
        return tuple(
            msgspec.structs.replace(stack, exact=stack.tid not in moved) if stack.tid in moved else stack
            for stack in stacks
        )

    def _ask(self, pid: int, now: Callable[[], float]) -> tuple[float, int | None, bytes, str]:
        """When py-spy was run, and the result of `_run`; repeated if frames changed too fast."""
        attempt, taken_at, answer = 1, now(), self._run(pid)
        while TORN in answer[2] and attempt < ATTEMPTS:
            attempt, taken_at, answer = attempt + 1, now(), self._run(pid)
        return taken_at, *answer

    def _run(self, pid: int) -> tuple[int | None, bytes, str]:
        """Exit status (`None` if it was abandoned, with the reason as its message), output, and error message of
        py-spy.
        """
        if self._closed or not self._executable:
            return None, b"", "mpmon is about to end"
        command = [self._executable, "dump", "--nonblocking", "--json", "--locals", "--pid", str(pid)]
        environment = {"PATH": os.environ.get("PATH", ""), "RUST_BACKTRACE": "0"}
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
            start_new_session=True,
        )  # fmt: skip
        self._running.add(process)
        limit(process.pid)
        try:
            output, words = _said(process, self._deadline_s)
        except (TimeoutError, _TooMuch) as problem:
            process.kill()
            # In a page of a file whose server is dead not even that ends it; then it is left to the kernel.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_S)
            return None, b"", str(problem)
        finally:
            self._running.discard(process)
        return process.returncode, output, words.decode("utf-8", "replace")

    def _ask_itself(self, pid: int, now: Callable[[], float], refusal: Unknown) -> tuple[Stack, ...] | Unknown:
        """What a process writes itself after py-spy was refused."""
        try:
            return ask_at(self._proc, pid, now()) or refusal
        except Unanswered:
            return refusal
        except Refused as problem:
            if refusal.gone or refusal.reason == NOT_PYTHON:
                return refusal
            more = f"the stacks it would write itself are not trusted: {problem.filename} {problem.strerror}"
            return msgspec.structs.replace(refusal, reason=f"{refusal.reason}; {more}")

    def _refused(self, pid: int, status: int | None, words: str) -> Unknown:
        """Facts of /proc explain more than py-spy's text, whose advice (sudo !!) means nothing in a container."""
        if not run_counters(self._proc, pid):
            return Unknown(table="stacks", pid=pid, reason="ended", gone=True)
        if status is None:
            return Unknown(table="stacks", pid=pid, reason=words)
        if "python version" in words or "python process" in words.lower():
            return Unknown(table="stacks", pid=pid, reason=NOT_PYTHON)
        if "ermission" in words or "EPERM" in words or "not permitted" in words:
            return Unknown(table="stacks", pid=pid, reason=why_unreadable(pid, Path(self._proc.root)))
        return Unknown(table="stacks", pid=pid, reason=_first_sentence(words))


def _take(
    pid: int, reading: Reading | OSError, stacks: dict[int, tuple[Stack, ...]], unknowns: dict[int, Unknown]
) -> bool:
    """Note what our own reader found, or why there is nothing; false if py-spy may know more."""
    if isinstance(reading, Unanswered):
        unknowns[pid] = Unknown(table="stacks", pid=pid, reason=f"its memory cannot be read: {reading.strerror}")
        return True
    if isinstance(reading, OSError):
        return False  # py-spy's failure, or the process itself, tells more
    if reading.gone:
        unknowns[pid] = Unknown(table="stacks", pid=pid, reason="ended", gone=True)
    elif reading.refused:
        return False
    else:
        stacks[pid] = reading.stacks
    if reading.problem:
        unknowns[pid] = Unknown(table="stacks", pid=pid, reason=reading.problem)
    return True


def parse_dump(
    text: bytes, pid: int, taken_at: float, ids: ThreadIds | None = None, numbers: Numbers | None = None
) -> tuple[Stack, ...]:
    """Rows of one `py-spy dump --json`; threads whose id cannot be told are left out.

    Raises:
        BadDump: cut, garbled, or of another shape.
    """
    try:
        threads = _decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise BadDump(str(problem)) from problem
    named = [(thread, _tid(thread, ids)) for thread in threads]
    numbers = numbers or Numbers()
    numbers.turn()
    return tuple(
        Stack(
            pid=pid,
            tid=tid,
            thread_name=thread.thread_name or "",
            taken_at=taken_at,
            ident=thread.thread_id,
            frames=rows(bounded(thread.frames), tid, numbers),
            active=thread.active,
            owns_gil=thread.owns_gil,
        )
        for thread, tid in named
        if tid is not None
    )


def _tid(thread: _DumpThread, ids: ThreadIds | None) -> int | None:
    if ids is None:
        return thread.os_thread_id
    return ids.of(thread.thread_name or "", thread.thread_id, thread.os_thread_id)


def find_py_spy() -> str | None:
    """The py-spy that came with mpmon: beside this interpreter, else on the path."""
    beside = Path(sysconfig.get_path("scripts")) / "py-spy"
    near = Path(sys.executable).parent / "py-spy"
    for candidate in (beside, near):
        if os.access(candidate, os.X_OK):
            return str(candidate)
    return shutil.which("py-spy")


class _TooMuch(Exception):
    """It says more than is read."""


def _said(process: subprocess.Popen[bytes], seconds: float) -> tuple[bytes, bytes]:
    """What a child writes to its output and to its errors, until it has ended.

    Raises:
        TimeoutError: it has not, within that time.
        _TooMuch: more than `OUTPUT_LIMIT`.
    """
    until = time.monotonic() + seconds
    streams = [stream for stream in (process.stdout, process.stderr) if stream]
    said = {stream.fileno(): bytearray() for stream in streams}
    late = TimeoutError(f"py-spy did not answer within {seconds:g} s")
    with contextlib.ExitStack() as opened, selectors.DefaultSelector() as pipes:
        for stream in streams:
            pipes.register(opened.enter_context(stream), selectors.EVENT_READ)
        while pipes.get_map():
            left = until - time.monotonic()
            ready = pipes.select(left) if left > 0 else []
            if not ready:
                raise late
            for pipe, _ in ready:
                chunk = os.read(pipe.fd, CHUNK)
                said[pipe.fd] += chunk
                if not chunk:
                    pipes.unregister(pipe.fd)
            if sum(map(len, said.values())) > OUTPUT_LIMIT:
                raise _TooMuch(f"py-spy had more than {OUTPUT_LIMIT >> 20} MiB of output about it, and was stopped")
    try:
        process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired as problem:
        raise late from problem
    output, words = said.values()
    return bytes(output), bytes(words)


def limit(pid: int) -> None:
    """Lower the limits of a child, where they are not lower already."""
    # It has ended already, or became another user (setuid).
    with contextlib.suppress(OSError):
        for kind, most in LIMITS.items():
            soft, hard = resource.prlimit(pid, kind)
            if soft == resource.RLIM_INFINITY or soft > most:
                resource.prlimit(pid, kind, (most, hard))


def _first_sentence(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return "py-spy: " + (lines[0].removeprefix("Error: ") if lines else "failed without a message")


def _agree(own: Stack, other: Stack | None, *, ran: bool) -> bool:
    """Both tell the same calls and lines; of a thread that `ran` meanwhile, at least the same outermost call."""
    others = other.frames if other else ()
    frames = [frame for frame in own.frames if not _is_left_out(frame)]
    same = _same_function if not ran and any(_LINES_MAY_ERR in frame.file for frame in frames) else _same_call
    if len(frames) == len(others) and all(map(same, frames, others)):
        return True
    return ran and all(map(_same_function, frames[-1:], others[-1:])) and bool(frames) == bool(others)


def _is_left_out(frame: Frame) -> bool:
    """py-spy 0.4 leaves out calls whose names it cannot read: those with bytes that are no UTF-8, and very long ones."""
    return _UNDECODABLE in frame.function + frame.file or max(len(frame.function), len(frame.file)) >= LONGEST_TEXT


_UNDECODABLE = "\ufffd"


_LINES_MAY_ERR = "/python3.10/"
"""In the paths of the files of Python 3.10: py-spy 0.4 is sometimes a line off there (benfred/py-spy, issue 549)."""


def _same_call(own: Frame, other: Frame) -> bool:
    return _same_function(own, other) and own.line == other.line


def _same_function(own: Frame, other: Frame) -> bool:
    """py-spy does not look for the file in which code was written that another process sent."""
    return own.function == other.function and other.file in (own.file, SENT_CODE)
