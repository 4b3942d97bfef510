"""Frames as lines: the user's own code bright, libraries, what is written in C and what a fork copied in short."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mpmon.diagnosis.stacks import merging
from mpmon.diagnosis.stacks.natives import native_fact
from mpmon.model import Frame, NativeFrame
from mpmon.tui import format as fmt
from mpmon.tui.line import Line, clip, plain

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from mpmon.model import NativeStack, Stack

LIBRARY = re.compile(r"/(site|dist)-packages/|/mpmon/shim/|/lib/python\d|/lib64/python\d|^<frozen|\.zip/")
"""Files that are not the user's own code."""

LIBRARY_ROOT = re.compile(r".*(/(site|dist)-packages|/lib(64)?/python\d[^/]*|\.zip)/")
"""The folder below which each package of a library has its own."""

NAMED = 3
"""How many packages a folded line names."""

LONGEST_NAME = 60
"""Letters of a function of C++."""

FORK = "multiprocessing/popen_fork.py"
"""Where multiprocessing forks: the child comes out of it with its parent's stack."""


def is_users(frame: Frame) -> bool:
    """Whether the frame is in the user's own code."""
    return LIBRARY.search(frame.file) is None


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
    stack: Stack,
    width: int,
    *,
    folded: bool = False,
    notes: Mapping[int, tuple[str, ...]] | None = None,
    native: NativeStack | None = None,
) -> list[Line]:
    """Frames innermost first, those of C among those of Python; what a forked process inherited of its parent's is one line.

    Folded, libraries below the innermost frame take one line between two frames of the user's, and the C library none.  A frame
    with notes (the locks it holds or waits for) is never folded, and has them below it.
    """
    if not stack.frames:
        return [plain("  no Python frames", "dim"), *(native_lines(native, width) if native else ())]
    noted = {id(stack.frames[at]): lines for at, lines in (notes or {}).items()}
    own, thread = own_frames(stack), merging.merged_thread(native, stack) if native else None
    frames = _shown(thread.told if thread else own, folded=folded)
    lines: list[Line] = []
    for run in _runs(frames, noted.keys(), folded=folded):
        lines += _run_lines(run, width)
        lines += [clip(plain(f"    - {note}", "warn"), width) for note in noted.get(id(run[0]), ())]
    if thread and any(isinstance(frame, NativeFrame) for frame in frames):
        lines += [clip(plain(f"  ({note})", "dim"), width) for note in thread.notes]
    inherited = stack.frames[len(own) :]
    forked_at = next((frame for frame in inherited if is_users(frame)), None)
    if forked_at is not None:
        place = f"{fmt.file_name(forked_at.file)}:{forked_at.line} in {forked_at.function}"
        lines.append(clip(plain(f"  forked at {place}", "dim"), width))
    return lines


def wait_lines(native: NativeStack | None, width: int) -> list[Line]:
    """What the frames of C tell of a wait, if anything."""
    fact = native_fact(native) if native else None
    return [clip(plain(f"  {fact.words}", "dim"), width)] if fact and fact.words else []


def native_lines(native: NativeStack, width: int) -> list[Line]:
    """The frames of a thread that Python does not know."""
    thread = merging.merged_thread(native, None)
    lines = [line for frame in native.frames for line in _run_lines([frame], width)]
    return [*lines, *(clip(plain(f"  ({note})", "dim"), width) for note in thread.notes)]


def _shown(frames: Sequence[Frame | NativeFrame], *, folded: bool) -> list[Frame | NativeFrame]:
    return [frame for frame in frames if not (folded and isinstance(frame, NativeFrame) and merging.is_runtime(frame))]


def _runs(
    frames: Sequence[Frame | NativeFrame], noted: Collection[int], *, folded: bool
) -> list[list[Frame | NativeFrame]]:
    """Frames that share a line."""
    runs: list[list[Frame | NativeFrame]] = []
    for index, frame in enumerate(frames):
        pair = (frame, frames[index - 1])
        plain_ones = not any(_is_users(one) or id(one) in noted for one in pair)
        if folded and index > 1 and plain_ones:
            runs[-1].append(frame)
        else:
            runs.append([frame])
    return runs


def _is_users(frame: Frame | NativeFrame) -> bool:
    return isinstance(frame, Frame) and is_users(frame)


def _run_lines(run: Sequence[Frame | NativeFrame], width: int) -> list[Line]:
    if len(run) == 1:
        (frame,) = run
        if isinstance(frame, Frame):
            return [frame_line(frame, width)]
        return [clip(plain(f"  | {merging.native_text(frame, LONGEST_NAME)}", "dim"), width)]
    packages = list(
        dict.fromkeys(package(frame.file) if isinstance(frame, Frame) else merging.library(frame) for frame in run)
    )
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
