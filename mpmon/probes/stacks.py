"""Python frames of every thread, by py-spy.

Called once a process, because `py-spy dump --json --subprocesses` returns only the parent and one unreadable child fails
the whole call (py-spy 0.4.3).
Always `--nonblocking`: the default stops the target for 1 to 4 ms a dump and can leave it stopped.
For a thread whose counters did not move during the dump the frames are exact; otherwise frames of different moments may
be mixed, and the row says so.

A job that was started with `mpmon run --dump-stacks` is asked to write its stacks down where py-spy fails.

Locals are read to tell two calls of one function apart, and for the few names in `KNOWN_LOCALS` and `KNOWN_WORDS`.
Only a digest of the objects' identities is kept of the others: their values are the user's, not ours.

A dump costs about 10 ms of CPU, so the sampler asks for one only when a process that stands still moved in between.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import resource
import selectors
import shutil
import subprocess
import sys
import sysconfig
import time
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import repeat
from pathlib import Path

import msgspec

from mpmon.model import NOT_PYTHON, Frame, Stack, Unknown
from mpmon.probes.aside import Unanswered
from mpmon.probes.door import Refused
from mpmon.probes.files import Proc
from mpmon.probes.memory import may_be_read, word_at
from mpmon.probes.namespaces import Namespace
from mpmon.probes.rights import why_unreadable
from mpmon.probes.shim.stacks import ask_at

DEADLINE_S = 5.0
"""A dump that takes longer is given up."""

END_S = 0.2
"""How long the end of a py-spy that was killed may take."""

TORN, ATTEMPTS = "Failed to get stack traces", 3
"""What py-spy says of frames that changed while it followed them, as those of a loop of short calls do (measured: up to one
dump of five); it is asked again at once, so often in all.
"""

PARALLEL = 2
"""Dumps at a time: more would take CPU from the job."""

OUTPUT_LIMIT = 1 << 25
"""Bytes that are read of one dump; a runaway recursion prints a thousand frames, 1 MB."""

CHUNK = 1 << 16
"""Bytes of one reading: what a pipe holds (pipe(7))."""

LIMITS = {resource.RLIMIT_AS: 1 << 29, resource.RLIMIT_CORE: 0}
"""Of py-spy (getrlimit(2)): a job may have mappings whose list alone has a gigabyte, for its usual needs 40 MB are enough; and
what it has read of the job is not left in a file.
"""

MAX_FRAMES = 400
"""Frames of one thread that are kept, the innermost and the outermost halves."""

KNOWN_LOCALS: dict[str, frozenset[str]] = {
    "_worker_loop": frozenset({"worker_id", "num_workers"}),
    "_next_data": frozenset({"worker_id"}),
    "_wrap": frozenset({"i"}),
    "send": frozenset({"dst"}),
    "recv": frozenset({"src"}),
    "isend": frozenset({"dst"}),
    "irecv": frozenset({"src"}),
    **dict.fromkeys(
        ("broadcast", "broadcast_object_list", "scatter", "scatter_object_list"), frozenset({"src", "group_src"})
    ),
    **dict.fromkeys(("reduce", "gather", "gather_object"), frozenset({"dst", "group_dst"})),
}
"""Locals of torch's own functions worth keeping: torch/utils/data/_utils/worker.py, torch/utils/data/dataloader.py,
torch/multiprocessing/spawn.py, torch/distributed/distributed_c10d.py. They are small numbers."""

KNOWN_WORDS = {"init_process_group": "init_method"}
"""The same of words: where the ranks meet, as `tcp://10.0.0.1:29500` or `file:///scratch/meet`."""

LONGEST_WORD = 200

PLAIN_LENGTH, MOST_PLAIN = 60, 24
"""Length of a value that counts as plain, and how many of one frame are digested."""

KNOWN_NUMBERS = frozenset({"rank", "world_size"})
"""Kept from any frame, when they are plain numbers: who a process is in a job that was started by hand."""


class _Local(msgspec.Struct):
    name: str
    addr: int = 0
    arg: bool = False
    repr: str | None = None


class _DumpFrame(msgspec.Struct):
    name: str
    filename: str | None = None
    line: int = 0
    locals: list[_Local] | None = None
    is_entry: bool = False
    is_shim_entry: bool = False


class _DumpThread(msgspec.Struct):
    thread_name: str | None = None
    thread_id: int | None = None
    os_thread_id: int | None = None
    active: bool = False
    owns_gil: bool = False
    frames: list[_DumpFrame] = []


class BadDump(ValueError):
    """Output of py-spy that is cut or garbled."""


_decoder = msgspec.json.Decoder(list[_DumpThread])


class StackProbe:
    """Runs py-spy, at most `PARALLEL` at a time, each with a deadline of its own."""

    def __init__(self, proc: Proc, *, executable: str | None = None, deadline_s: float = DEADLINE_S) -> None:
        self._proc = proc
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
        if self.problem:
            return stacks, {pid: Unknown(table="stacks", pid=pid, reason=self.problem) for pid in wanted}
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
            return Unknown(table="stacks", pid=pid, reason="py-spy named no thread of it")
        after = run_counters(self._proc, pid)
        moved = {tid for tid in before if after.get(tid) != before[tid]}
        return tuple(
            msgspec.structs.replace(stack, exact=stack.tid not in moved) if stack.tid in moved else stack
            for stack in stacks
        )

    def _ask(self, pid: int, now: Callable[[], float]) -> tuple[float, int | None, bytes, str]:
        """When py-spy was asked, and what `_run` tells; again where frames changed too fast."""
        attempt, taken_at, answer = 1, now(), self._run(pid)
        while TORN in answer[2] and attempt < ATTEMPTS:
            attempt, taken_at, answer = attempt + 1, now(), self._run(pid)
        return taken_at, *answer

    def _run(self, pid: int) -> tuple[int | None, bytes, str]:
        """Exit status (`None` where it was given up, with the reason in place of its words), output, and what py-spy said."""
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
        """What a process writes down where py-spy has refused."""
        try:
            return ask_at(self._proc, pid, now()) or refusal
        except Unanswered:
            return refusal
        except Refused as problem:
            if refusal.gone or refusal.reason == NOT_PYTHON:
                return refusal
            more = f"what it would write itself is not believed: {problem.filename} {problem.strerror}"
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


class ThreadIds:
    """The kernel's id of a Python thread, by what Python knows of it; it counts only if the process has such a thread.

    Python keeps `native_thread_id` from 3.11 on.  Before, the id lies in glibc's thread control block, whose address the
    pthread id is: `tid` of `struct pthread` (nptl/descr.h).  Both are ids of the process's own pid namespace.
    """

    TID_AT = 0x2D0
    """Offset of `tid` on x86-64; on other machines only the main thread is found."""

    def __init__(self, proc: Proc, pid: int) -> None:
        self._proc, self._pid = proc, pid
        self._namespace = Namespace(proc, pid)

    def of(self, name: str, ident: int | None, native_id: int | None = None) -> int | None:
        """The id, `None` where it cannot be told."""
        if native_id is not None:
            return self._namespace.thread(native_id)
        found = self._from_memory(ident) if ident else None
        return found or (self._pid if name == "MainThread" else None)

    def _from_memory(self, ident: int) -> int | None:
        try:
            word = word_at(self._proc, self._pid, ident + self.TID_AT)
            return None if word is None else self._namespace.thread(word)
        except OSError:
            return None


class Numbers:
    """The plain numbers in the frames of one process as they were at the last reading, to tell which of them grow.

    They are kept here only, and only until the next reading.
    """

    def __init__(self) -> None:
        self._before: dict[tuple[object, ...], float] = {}
        self._now: dict[tuple[object, ...], float] = {}

    def turn(self) -> None:
        """The next reading begins."""
        self._before, self._now = self._now, {}

    def trend(self, call: tuple[object, ...], plain: Iterable[_Local]) -> dict[str, int]:
        """`Frame.trend` of one call, which its thread, function and place tell from others."""
        found: dict[str, int] = {}
        for item in plain:
            value = _number(item.repr or "")
            if value is None:
                continue
            name = (*call, item.name)
            self._now[name] = value
            before = self._before.get(name, value)
            if value != before:
                found[item.name] = 1 if value > before else -1
        return found


def _number(text: str) -> float | None:
    """`None` also for what is not a number, which is neither larger nor smaller than anything."""
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) else value


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
            frames=_frames(_bounded(thread.frames), tid, numbers),
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


def _bounded(frames: list[_DumpFrame]) -> list[_DumpFrame]:
    if len(frames) <= MAX_FRAMES:
        return frames
    half = MAX_FRAMES // 2
    return frames[:half] + frames[-half:]


def _frames(frames: list[_DumpFrame], tid: int, numbers: Numbers) -> tuple[Frame, ...]:
    """Innermost first, as they come."""
    return tuple(_frame(frame, (tid, len(frames) - at), numbers) for at, frame in enumerate(frames))


def _frame(frame: _DumpFrame, place: tuple[int, int], numbers: Numbers) -> Frame:
    plain = _plain(frame)
    return Frame(
        function=_once(frame.name),
        file=_once(frame.filename or ""),
        line=frame.line,
        arguments_digest=_digest(frame.locals, arguments=True),
        locals_digest=_digest(frame.locals, arguments=False),
        plain={item.name: zlib.crc32((item.repr or "").encode()) for item in plain} or None,
        trend=numbers.trend((*place, frame.name), plain) or None,
        known=_known(frame) or None,
        is_entry=frame.is_entry or frame.is_shim_entry,
    )


def _once(text: str) -> str:
    """The same object for what many frames say. What `sys.intern` is given, Python 3.12 never lets go of."""
    return _kept(text) if len(text) <= LONGEST_WORD else text


@lru_cache(maxsize=4096)
def _kept(text: str) -> str:
    return text


def _plain(frame: _DumpFrame) -> list[_Local]:
    """The plain locals of a frame that is not of the standard library or an installed package."""
    file = frame.filename or "<"
    if file.startswith("<") or "/lib/python" in file or "-packages/" in file:
        return []
    plain = (
        item for item in frame.locals or () if item.repr and len(item.repr) <= PLAIN_LENGTH and "<" not in item.repr
    )
    return list(itertools.islice(plain, MOST_PLAIN))


def _known(frame: _DumpFrame) -> dict[str, str]:
    if not frame.locals:
        return {}
    function = frame.name.rpartition(".")[2]
    wanted = KNOWN_LOCALS.get(function, frozenset[str]()) | KNOWN_NUMBERS
    found = {item.name: item.repr for item in frame.locals if item.name in wanted and item.repr and item.repr.isdigit()}
    return found | {
        item.name: item.repr[1:-1] for item in frame.locals
        if item.name == KNOWN_WORDS.get(function) and item.repr and item.repr[0] in "\"'" and len(item.repr) <= LONGEST_WORD
    }  # fmt: skip


def _digest(variables: list[_Local] | None, *, arguments: bool) -> int | None:
    """One number for which objects the arguments, or the other locals, are bound to."""
    chosen = [(item.name, item.addr, item.repr) for item in variables or () if item.arg is arguments]
    return zlib.crc32(repr(chosen).encode()) if chosen else None


def find_py_spy() -> str | None:
    """The py-spy that came with mpmon: beside this interpreter, else on the path."""
    beside = Path(sysconfig.get_path("scripts")) / "py-spy"
    near = Path(sys.executable).parent / "py-spy"
    for candidate in (beside, near):
        if os.access(candidate, os.X_OK):
            return str(candidate)
    return shutil.which("py-spy")


def run_counters(proc: Proc, pid: int) -> dict[int, bytes]:
    """Each thread's `schedstat`: unchanged means that it did not run in between."""
    counters: dict[int, bytes] = {}
    try:
        for tid in proc.tids(pid):
            counters[tid] = proc.read(pid, "task", tid, "schedstat")
    except OSError:
        return counters
    return counters


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
                raise _TooMuch(f"py-spy had more than {OUTPUT_LIMIT >> 20} MiB to say of it, and was ended")
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
    return "py-spy: " + (lines[0].removeprefix("Error: ") if lines else "failed without a word")
