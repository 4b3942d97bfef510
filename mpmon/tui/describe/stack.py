"""The threads of one process: what the kernel says of each, and its frames."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from mpmon.diagnosis import loops
from mpmon.diagnosis.libraries import TURNS
from mpmon.diagnosis.stacks import lock_annotations
from mpmon.diagnosis.stacks.frames import in_call
from mpmon.tui import format as fmt
from mpmon.tui.describe.finding import in_chain
from mpmon.tui.describe.frames import frame_lines, native_lines, wait_lines
from mpmon.tui.describe.waits import kernel_lines
from mpmon.tui.line import BLANK, Line, clip, plain, wrap

if TYPE_CHECKING:
    from mpmon.model import Blocked, NativeStack, Stack
    from mpmon.tui.scene import Scene

MOST_TASKS = 100
"""Tasks of one event loop that are listed."""

STALE_S = 10.0
"""Frames older than this are shown with their age."""


class ThreadKey(NamedTuple):
    """One thread of a process that can be looked at."""

    tid: int
    name: str


def threads_of(scene: Scene, pid: int) -> tuple[ThreadKey, ...]:
    """Threads with a stack or a word from the kernel, the main thread first."""
    python = {stack.tid: stack.thread_name for stack in scene.stacks_of(pid)}
    kernel = set(scene.blocked_of(pid))
    names = {pid: "MainThread"} | {tid: name for tid, name in python.items() if name}
    tids = sorted(kernel | set(python), key=lambda tid: (tid != pid, tid not in python, tid))
    if not names.keys() >= set(tids):
        names = {t.tid: t.name for t in scene.snapshot.threads if t.pid == pid} | names
    return tuple(ThreadKey(tid, names.get(tid, f"thread {tid}")) for tid in tids)


def thread_lines(scene: Scene, pid: int, tid: int, width: int, *, folded: bool = False) -> list[Line]:
    """The system call of one thread, its frames, and what it waits for in detail."""
    blocked = scene.blocked_of(pid).get(tid)
    stack = next((s for s in scene.stacks_of(pid) if s.tid == tid), None)
    known = kernel_lines(scene, blocked, width) if blocked else []
    native = scene.native_stacks.get((pid, tid))
    lines, waits = known[:1], known[1:] + wait_lines(native, width)
    if stack is None:
        return lines + waits + (native_lines(native, width) if native else missing(scene, pid, width))
    lines += [plain(note, "dim") for note in _notes(scene, stack)]
    notes = lock_annotations.by_frame(scene.snapshot, stack)
    # The line of code is what people look for, and the panel may be a few lines high.
    lines += frame_lines(stack, width, folded=folded, notes=notes, native=native)
    return lines + waits + _task_lines(scene, stack, width)


def _task_lines(scene: Scene, stack: Stack, width: int) -> list[Line]:
    """The tasks of the event loop that a thread runs, if it runs one, or why they are not known."""
    if not in_call(stack, TURNS):
        return []
    rows = [row for row in scene.snapshot.tasks if row.pid == stack.pid]
    told = loops.lines(rows, stack.tid, MOST_TASKS)
    lines = [plain("tasks of its event loop", "title")] if told else []
    lines += [line for text in told for line in wrap(text, width, first="  ", then="    ")]
    for reason in scene.reasons("tasks", stack.pid):
        lines += wrap(f"tasks of its event loop: {reason}", width, style="warn", then="  ")
    return lines


def along_chain(scene: Scene, pid: int, tid: int, width: int) -> list[list[Line]]:
    """The other stacks of the chain that a process is in, each with a title, from the one nearest to who must move first."""
    finding = scene.finding
    if finding is None or pid not in {link.pid for link in finding.chain}:
        return []
    found: list[list[Line]] = []
    for link in reversed(finding.chain):
        stack = next((s for s in scene.stacks_of(link.pid) if link.thread in (s.thread_name, None)), None)
        if stack is not None and stack.tid != tid:
            title = clip(plain(f"{in_chain(scene, finding, link)} · {link.does}", "title"), width)
            notes, native = (
                lock_annotations.by_frame(scene.snapshot, stack),
                scene.native_stacks.get((link.pid, stack.tid)),
            )
            found.append([title, *frame_lines(stack, width, folded=True, notes=notes, native=native)])
    return found


def _notes(scene: Scene, stack: Stack) -> list[str]:
    """What to know before trusting the frames."""
    notes: list[str] = [*lock_annotations.by_thread(scene.snapshot, stack)]
    if stack.owns_gil:
        notes.append("holds the GIL")
    if not stack.exact:
        notes.append("read while it ran: frames of different moments may be mixed")
    seconds = scene.since(stack.taken_at)
    if seconds is not None and seconds >= STALE_S:
        notes.append(f"frames read {fmt.age(fmt.steady(seconds))} ago")
    return notes


def missing(scene: Scene, pid: int, width: int) -> list[Line]:
    """Why there is no stack."""
    reasons = scene.reasons("stacks", pid)
    if reasons:
        return [line for reason in reasons for line in wrap(f"no stack: {reason}", width, style="warn", then="  ")]
    process = scene.processes.get(pid)
    if process is None or process.ended or any(e.pid == pid for e in scene.snapshot.exits):
        return [plain("no stack: the process has ended", "dim")]
    return [plain("no stack was read yet (r reads it now)", "dim")]


def all_threads(scene: Scene, pid: int, width: int, *, folded: bool = False) -> list[Line]:
    """Every thread with Python frames, one after the other, then the others, those in the same call together."""
    with_frames = {stack.tid for stack in scene.stacks_of(pid)}
    lines: list[Line] = [] if with_frames else [*missing(scene, pid, width), BLANK]
    native: dict[tuple[str, ...], list[ThreadKey]] = {}
    for thread in threads_of(scene, pid):
        if thread.tid in with_frames:
            lines += [plain(f"{thread.name} ({thread.tid})", "title")]
            lines += [*thread_lines(scene, pid, thread.tid, width, folded=folded), BLANK]
        elif blocked := scene.blocked_of(pid).get(thread.tid):
            calls = _functions(scene.native_stacks.get((pid, thread.tid)))
            native.setdefault((*_same_wait(blocked), *calls), []).append(thread)
    for threads in native.values():
        lines += [*_native(scene, pid, threads, width), BLANK]
    return lines[:-1]


def _same_wait(blocked: Blocked) -> tuple[str, ...]:
    """Equal for threads that wait alike: what is private to one of them, such as its futex, does not count."""
    return (blocked.state, blocked.syscall or blocked.wchan or "", *_shared(blocked))


def _functions(native: NativeStack | None) -> tuple[str, ...]:
    return tuple(frame.name or f"{frame.library}+{frame.offset}" for frame in native.frames) if native else ()


def _shared(blocked: Blocked) -> tuple[str, ...]:
    """What it waits for that others may wait for too."""
    return tuple(name for name in blocked.waits_on if not name.startswith("futex:"))


def _native(scene: Scene, pid: int, threads: list[ThreadKey], width: int) -> list[Line]:
    """Threads without Python frames that wait alike: their names, and what the kernel says of the first."""
    names = Counter(thread.name for thread in threads)
    said = ", ".join(f"{count} × {name}" if count > 1 else name for name, count in names.items())
    title = wrap(f"{said} · without Python frames", width, style="title", then="  ")
    blocked = scene.blocked_of(pid)[threads[0].tid]
    if len(threads) == 1:
        title[-1] = (*title[-1], (f" ({threads[0].tid})", "title"))
    else:
        blocked = msgspec.structs.replace(blocked, waits_on=_shared(blocked))
    frames = scene.native_stacks.get((pid, threads[0].tid))
    called = [*wait_lines(frames, width), *native_lines(frames, width)] if frames else []
    return [*title, *kernel_lines(scene, blocked, width), *called]
