"""Code that a library, whichever it is, runs on behalf of a caller, recognised by the shape of a stack alone.

Ray, Dask, joblib, pytest-xdist, Celery and libraries unknown to mpmon have two things in common. If a library calls the
user's code, that is a *task*: outside the user's outermost frame are frames of the library's package. If the user's
code has called the library and is still inside it, that is a *client*. A client waits for tasks of its library;
heartbeats and polls of the library's own threads do not advance it.
"""

from __future__ import annotations

import itertools

import msgspec

from mpmon.diagnosis.stacks.frames import bare, is_machinery, is_user, own_frames
from mpmon.model import Frame, Stack

_FOLDERS = ("/site-packages/", "/dist-packages/")

OWN = "mpmon"
"""The package whose scenes `mpmon demo` plays: they are programs, of which it is no library."""


class Shape(msgspec.Struct, frozen=True, gc=False):
    """The parts of a stack, by whose code it is."""

    runs: frozenset[str] = frozenset()
    """Packages that called the user's code; empty for a program's own code, and if none of it is the user's."""
    asks: frozenset[str] = frozenset()
    """Packages inside the user's code."""
    reads: bool = False
    """A task asks the file of the library that runs it for the next item of a stream: it reads what its client sends."""
    serves: frozenset[str] = frozenset()
    """Packages of a library's service thread, which runs only their code."""


def shape(stack: Stack) -> Shape:
    """Whose code it is, from outside inwards."""
    frames = list(own_frames(stack))
    users = [at for at, frame in enumerate(frames) if is_user(frame.file)]
    # A thread that a library started is its service thread: it waits for work.
    started = not users and bool(frames) and frames[-1].function.rpartition(".")[2] == "_bootstrap"
    inner = frames[: users[0]] if users else [] if started else frames
    outer = frames[users[-1] + 1 :] if users else []
    return Shape(
        runs=frozenset(filter(None, (package(frame.file) for frame in outer))),
        asks=frozenset(filter(None, (package(frame.file) for frame in inner))),
        reads=bool(inner) and _iterates(inner[-1], outer),
        serves=frozenset(filter(None, (package(frame.file) for frame in (() if users else frames)))),
    )


def _iterates(asked: Frame, outer: list[Frame]) -> bool:
    return bare(asked.function) in ("__next__", "__anext__") and any(frame.file == asked.file for frame in outer)


def entered(stack: Stack) -> str | None:
    """The file of the library that the user's innermost code has called."""
    inner = list(itertools.takewhile(lambda frame: not is_user(frame.file), own_frames(stack)))
    return next((frame.file for frame in reversed(inner) if package(frame.file)), None)


def in_task(stack: Stack | None) -> bool:
    """The thread runs code of the user that a library has called, wherever the library itself was called."""
    frames = list(own_frames(stack)) if stack else []
    inner = next((at for at, frame in enumerate(frames) if is_user(frame.file)), len(frames))
    return any(package(frame.file) for frame in frames[inner:])


def caller(stack: Stack | None) -> str | None:
    """The package whose code has called the user's innermost code; `None` if other code of the user's did."""
    frames = list(own_frames(stack)) if stack else []
    inner = next((at for at, frame in enumerate(frames) if is_user(frame.file)), len(frames))
    outer = itertools.dropwhile(lambda frame: is_user(frame.file) or is_machinery(frame.file), frames[inner:])
    return next((package(frame.file) for frame in outer), None)


def asks_own_library(stack: Stack) -> bool:
    """A library's task asks that library for something: the variables inside are the library's own, such as its attempts."""
    frames = reversed(list(own_frames(stack)))
    outermost = next((frame for frame in frames if not is_machinery(frame.file)), None)
    if outermost is None or is_user(outermost.file):
        # Most programs begin with code of their own, which no library has called.
        return False
    found = shape(stack)
    return bool(found.asks & found.runs)


def package(file: str) -> str | None:
    """The package of a library's file; `None` for the user's code and for machinery, which has rows of its own."""
    if is_machinery(file):
        return None
    for folder in _FOLDERS:
        _, found, name = file.rpartition(folder)
        if found:
            name = name.partition("/")[0].removesuffix(".py")
            return None if name == OWN else name
    return None
