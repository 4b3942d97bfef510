"""Stacks of one process: Python frames, and what the kernel says of each thread."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from mpmon.diagnosis import holding
from mpmon.tui import format as fmt
from mpmon.tui.describe.crowd import crowd, kind_of
from mpmon.tui.describe.finding import in_chain
from mpmon.tui.describe.waits import kernel_lines
from mpmon.tui.line import BLANK, Line, clip, plain, wrap

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mpmon.model import Blocked, Frame, Stack
    from mpmon.tui.scene import Scene

LIBRARY = re.compile(r"/(site|dist)-packages/|/mpmon/shim/|/lib/python\d|/lib64/python\d|^<frozen|\.zip/")
"""Files that are not the user's own code."""


LIBRARY_ROOT = re.compile(r".*(/(site|dist)-packages|/lib(64)?/python\d[^/]*|\.zip)/")
"""The folder below which each package of a library has its own."""

NAMED = 3
"""How many packages a folded line names."""

FORK = "multiprocessing/popen_fork.py"
"""Where multiprocessing forks: the child comes out of it with its parent's stack."""


class ThreadKey(NamedTuple):
    """One thread of a process that can be looked at."""

    tid: int
    name: str


def is_users(frame: Frame) -> bool:
    """Whether the frame is in the user's own code."""
    return LIBRARY.search(frame.file) is None


def threads_of(scene: Scene, pid: int) -> tuple[ThreadKey, ...]:
    """Threads with a stack or a word from the kernel, the main thread first."""
    python = {stack.tid: stack.thread_name for stack in scene.stacks_of(pid)}
    kernel = set(scene.blocked_of(pid))
    names = {t.tid: t.name for t in scene.snapshot.threads if t.pid == pid} | {pid: "MainThread"}
    names |= {tid: name for tid, name in python.items() if name}
    tids = sorted(kernel | set(python), key=lambda tid: (tid != pid, tid not in python, tid))
    return tuple(ThreadKey(tid, names.get(tid, f"thread {tid}")) for tid in tids)


def frame_line(frame: Frame, width: int) -> Line:
    """`job.py:88 in __getitem__`, the user's own code bright."""
    place = f"{fmt.file_name(frame.file)}:{frame.line}"
    users = is_users(frame)
    known = "".join(f" {name}={value}" for name, value in (frame.known or {}).items())
    spans = (
        (f"  {place}", "place" if users else "dim"),
        (f" in {frame.function}", "bold" if users else "dim"),
        (known, "dim"),
    )
    return clip(spans, width)


def frame_lines(
    stack: Stack, width: int, *, folded: bool = False, notes: Mapping[int, tuple[str, ...]] | None = None
) -> list[Line]:
    """Frames innermost first; what a forked process inherited of its parent's stack is one line.

    Folded, libraries below the innermost frame take one line between two frames of the user's.  A frame with notes (the
    locks it holds or waits for) is never folded, and has them below it.
    """
    if not stack.frames:
        return [plain("  no Python frames", "dim")]
    notes = notes or {}
    own = own_frames(stack)
    lines: list[Line] = []
    at = 0
    for run in _runs(own, frozenset(notes), folded=folded):
        lines += _run_lines(run, width)
        lines += [clip(plain(f"    - {note}", "warn"), width) for note in notes.get(at, ())]
        at += len(run)
    inherited = stack.frames[len(own) :]
    forked_at = next((frame for frame in inherited if is_users(frame)), None)
    if forked_at is not None:
        place = f"{fmt.file_name(forked_at.file)}:{forked_at.line} in {forked_at.function}"
        lines.append(clip(plain(f"  forked at {place}", "dim"), width))
    return lines


def _runs(frames: tuple[Frame, ...], noted: frozenset[int], *, folded: bool) -> list[list[Frame]]:
    """Frames that share a line."""
    runs: list[list[Frame]] = []
    for index, frame in enumerate(frames):
        plain_ones = not is_users(frame) and not is_users(frames[index - 1]) and not {index, index - 1} & noted
        if folded and index > 1 and plain_ones:
            runs[-1].append(frame)
        else:
            runs.append([frame])
    return runs


def _run_lines(run: list[Frame], width: int) -> list[Line]:
    if len(run) == 1:
        return [frame_line(run[0], width)]
    packages = list(dict.fromkeys(package(frame.file) for frame in run))
    said = ", ".join(packages[:NAMED]) + (" …" if len(packages) > NAMED else "")
    return [clip(plain(f"  … {len(run)} frames of {said}", "dim"), width)]


def package(file: str) -> str:
    """The package or module of the library a file is in: "torch", "threading"."""
    if file.startswith("<frozen "):
        return file[len("<frozen ") :].rstrip(">").partition(".")[0]
    found = LIBRARY_ROOT.match(file)
    return (file[found.end() :] if found else fmt.file_name(file)).partition("/")[0].removesuffix(".py")


def own_frames(stack: Stack) -> tuple[Frame, ...]:
    """The frames since the fork: those below were copied from the parent and will never go on here."""
    files = [frame.file for frame in stack.frames]
    fork = next((index for index, file in enumerate(files) if file.endswith(FORK)), len(files))
    return stack.frames[:fork]


def thread_lines(scene: Scene, pid: int, tid: int, width: int, *, folded: bool = False) -> list[Line]:
    """What the kernel says of one thread, then its frames."""
    blocked = scene.blocked_of(pid).get(tid)
    stack = next((s for s in scene.stacks_of(pid) if s.tid == tid), None)
    lines = kernel_lines(scene, blocked, width) if blocked else []
    if stack is None:
        return lines + missing(scene, pid, width)
    lines += [plain(note, "dim") for note in _notes(scene, stack)]
    return lines + frame_lines(stack, width, folded=folded, notes=holding.by_frame(scene.snapshot, stack))


def along_chain(scene: Scene, pid: int, tid: int, width: int) -> list[Line]:
    """The other stacks of the chain that a process is in, from the one nearest to who must move first."""
    finding = scene.finding
    if finding is None or pid not in {link.pid for link in finding.chain}:
        return []
    lines: list[Line] = []
    for link in reversed(finding.chain):
        stack = next((s for s in scene.stacks_of(link.pid) if link.thread in (s.thread_name, None)), None)
        if stack is not None and stack.tid != tid:
            title = f"{in_chain(scene, finding, link)} · {link.does}"
            notes = holding.by_frame(scene.snapshot, stack)
            lines += [BLANK, clip(plain(title, "title"), width), *frame_lines(stack, width, folded=True, notes=notes)]
    return lines


def _notes(scene: Scene, stack: Stack) -> list[str]:
    """What to know before trusting the frames."""
    notes: list[str] = [*holding.by_thread(scene.snapshot, stack)]
    if stack.owns_gil:
        notes.append("holds the GIL")
    if not stack.exact:
        notes.append("read while it ran: frames of different moments may be mixed")
    seconds = scene.since(stack.taken_at)
    if seconds is not None and seconds >= STALE_S:
        notes.append(f"frames read {fmt.age(fmt.steady(seconds))} ago")
    return notes


STALE_S = 10.0
"""Frames older than this are shown with their age."""


def missing(scene: Scene, pid: int, width: int) -> list[Line]:
    """Why there is no stack."""
    reasons = scene.reasons("stacks", pid)
    if reasons:
        return [line for reason in reasons for line in wrap(f"no stack: {reason}", width, style="warn", then="  ")]
    process = scene.processes.get(pid)
    if process is None or process.ended or any(e.pid == pid for e in scene.snapshot.exits):
        return [plain("no stack: the process has ended", "dim")]
    return [plain("no stack was read yet (r looks now)", "dim")]


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
            native.setdefault(_same_wait(blocked), []).append(thread)
    for threads in native.values():
        lines += [*_native(scene, pid, threads, width), BLANK]
    return lines[:-1]


def _same_wait(blocked: Blocked) -> tuple[str, ...]:
    """Equal for threads that wait alike: what is private to one of them, such as its futex, does not count."""
    return (blocked.state, blocked.syscall or blocked.wchan or "", *_shared(blocked))


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
    return [*title, *kernel_lines(scene, blocked, width)]


def groups(scene: Scene, width: int) -> list[Line]:
    """All processes, equal main-thread stacks together: suspects first, then the odd ones out of their kind."""
    lines: list[Line] = []
    for pids in in_order_of_interest(scene, list(group_pids(scene).values())):
        lines += [*_group_title(scene, pids, width), *_main_frames(scene, pids[0], width), BLANK]
    without = [pid for pid in scene.views if not _main_stack(scene, pid)]
    if without:
        lines += wrap(f"without a stack: {crowd(scene, without)}", width, style="dim", then="  ")
    return lines


def in_order_of_interest(scene: Scene, found: list[list[int]]) -> list[list[int]]:
    """Groups with suspects, then those in which fewer than half of a kind are, then the rest; small ones first.

    A rank that does not do what the other seven do is odd, a launcher that is alone is not.
    """
    kinds = Counter(_kind(scene, pid) for pids in found for pid in pids)

    def rank(pids: list[int]) -> tuple[object, ...]:
        own = Counter(_kind(scene, pid) for pid in pids)
        odd = any(2 * count < kinds[kind] for kind, count in own.items())
        return (not scene.suspects & set(pids), not odd, len(pids), pids)

    return sorted(found, key=rank)


def _kind(scene: Scene, pid: int) -> str:
    return kind_of(scene.role(pid)).name


def group_pids(scene: Scene) -> dict[tuple[tuple[str, int, str], ...], list[int]]:
    """Pids by the frames of their main threads."""
    found: dict[tuple[tuple[str, int, str], ...], list[int]] = {}
    for pid in scene.views:
        stack = _main_stack(scene, pid)
        if stack is not None:
            found.setdefault(tuple((f.file, f.line, f.function) for f in own_frames(stack)), []).append(pid)
    return found


def _main_stack(scene: Scene, pid: int) -> Stack | None:
    return next((s for s in scene.stacks.get(pid, ()) if s.tid == pid), None)


def _group_title(scene: Scene, pids: list[int], width: int) -> list[Line]:
    style = "bad" if scene.suspects & set(pids) else "bold"
    count = f"{len(pids)} processes: " if len(pids) > 1 else ""
    return wrap(f"{count}{crowd(scene, pids)}", width, style=style, then="  ")


def _main_frames(scene: Scene, pid: int, width: int) -> list[Line]:
    stack = _main_stack(scene, pid)
    return frame_lines(stack, width, folded=True) if stack else []
