"""Code that a library runs on behalf of somebody, whichever library it is, known by the shape of a stack alone.

Ray, Dask, joblib, pytest-xdist, Celery and those nobody here has heard of have two things in common.  Where a library calls the
user's code, that is a *task*: outside of the user's outermost frame are frames of the library's package.  And where the user's
code has called the library and stands in it, it is a *client*.  A client waits for tasks of its library; that the library's
own threads tick meanwhile, with heartbeats and polls, brings it no further.
"""

from __future__ import annotations

import msgspec

from mpmon.diagnosis.frames import is_machinery, is_user, own_frames
from mpmon.model import Stack

_FOLDERS = ("/site-packages/", "/dist-packages/")


class Shape(msgspec.Struct, frozen=True, gc=False):
    """A stack by whose code it is."""

    runs: frozenset[str] = frozenset()
    """Packages that have called the user's code; empty of a program's own code, and where none of it is the user's."""
    asks: frozenset[str] = frozenset()
    """Packages that stand inside of it."""
    serves: frozenset[str] = frozenset()
    """Packages of which it is a servant: all of it is theirs."""


def shape(stack: Stack) -> Shape:
    """Whose code it is, from outside inwards."""
    frames = list(own_frames(stack))
    users = [at for at, frame in enumerate(frames) if is_user(frame.file)]
    # What a library has started is its servant: it waits for what it is to do.
    started = not users and bool(frames) and frames[-1].function.rpartition(".")[2] == "_bootstrap"
    inner = frames[: users[0]] if users else [] if started else frames
    outer = frames[users[-1] + 1 :] if users else []
    return Shape(
        runs=frozenset(filter(None, (package(frame.file) for frame in outer))),
        asks=frozenset(filter(None, (package(frame.file) for frame in inner))),
        serves=frozenset(filter(None, (package(frame.file) for frame in (() if users else frames)))),
    )


def package(file: str) -> str | None:
    """The package of a file of a library; `None` of the user's code and of machinery, which has rows of its own."""
    if is_machinery(file):
        return None
    for folder in _FOLDERS:
        _, found, name = file.rpartition(folder)
        if found:
            return name.partition("/")[0].removesuffix(".py")
    return None
