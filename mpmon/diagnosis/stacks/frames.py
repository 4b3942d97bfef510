"""Reading a Python stack: whose code it is, and which library call encloses it.

Three kinds of code: the *user's* (the training script and its packages), *libraries* (site-packages), and *machinery*
(the standard library, torch, and every other library with a file in `libraries`), whose function names mpmon
understands. Function names are qualified from Python 3.11 on and bare before, so they are compared by their last
component, together with the end of the file's path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

from mpmon.diagnosis.findings import Place
from mpmon.diagnosis.libraries import ONLY_WAITS, UNDERSTOOD
from mpmon.diagnosis.libraries.rows import Functions
from mpmon.diagnosis.stacks.copies import known_as
from mpmon.model import USERS_WITHOUT_FILE, Frame, Stack

_STANDARD = re.compile(r"/lib(64)?/python3\.\d+t?/(?!site-packages/|dist-packages/|test/)")
"""The tests of the standard library lie inside it, but are ordinary programs."""
_PACKAGES = re.compile(r"/(site|dist)-packages/")
_UNDERSTOOD = re.compile(rf"(^|/)({'|'.join(map(re.escape, UNDERSTOOD))})/(?!.*/mpmon/)")
_CONSOLE_SCRIPT = re.compile(r"/bin/[^/.]+$")
"""Such as `bin/uvicorn`: an import and a call, from an entry point of the package."""

_DEMO = "/mpmon/demo/scenes/"
_OURS = re.compile(r"/mpmon/(shim/|start\.py$)")
"""Hooks of the queue shim, which stand between the user's line and the library call it made; and the code that starts
the demo's scenes.
"""


@lru_cache(maxsize=4096)
def is_machinery(file: str) -> bool:
    """Standard library and its copies, libraries that are understood, parts of mpmon in the job, or code without a file."""
    if _DEMO in file or USERS_WITHOUT_FILE.fullmatch(file):
        return False
    if file.startswith("<") or not file or _OURS.search(file):
        return True
    return bool(_STANDARD.search(known_as(file))) or (
        bool(_PACKAGES.search(file)) and bool(_UNDERSTOOD.search(_after_packages(file)))
    )


@lru_cache(maxsize=4096)
def is_user(file: str) -> bool:
    """The user's own code; the script that pip writes to start a package's program is not."""
    if _DEMO in file:
        return True
    return not is_machinery(file) and not _PACKAGES.search(file) and not _CONSOLE_SCRIPT.search(file)


def bare(function: str) -> str:
    """`Queue.get` and `get` are the same function."""
    return function.rpartition(".")[2]


def calls(frame: Frame, file_end: str, functions: Iterable[str]) -> bool:
    """Whether the frame is one of these functions in a file that ends like this."""
    return known_as(frame.file).endswith(file_end) and bare(frame.function) in functions


def place(frame: Frame) -> Place:
    """The line of a frame."""
    return Place(function=frame.function, file=frame.file, line=frame.line)


def own_frames(stack: Stack) -> Iterator[Frame]:
    """The frames since the process began its own work, innermost first.

    A forked child keeps its parent's frames below `BaseProcess._bootstrap`; they tell nothing about the child.
    """
    for frame in stack.frames:
        yield frame
        if calls(frame, "multiprocessing/process.py", ("_bootstrap",)):
            return


def innermost_user(stack: Stack) -> Frame | None:
    """The user's innermost line; in a stack without any, the innermost line of a library; else the innermost line."""
    own = next((frame for frame in own_frames(stack) if is_user(frame.file)), None)
    library = next((frame for frame in own_frames(stack) if not is_machinery(frame.file)), None)
    return own or library or (stack.frames[0] if stack.frames else None)


def inner_machinery(stack: Stack) -> Iterator[Frame]:
    """The machinery's frames from the innermost outwards, until the code that called it."""
    for frame in own_frames(stack):
        if not is_machinery(frame.file):
            return
        yield frame


def asking(stack: Stack) -> tuple[Frame, ...]:
    """The calls from the one that called the machinery outwards; the machinery's own arguments are new objects each time."""
    return stack.frames[len(list(inner_machinery(stack))) :]


def called_by_user(stack: Stack) -> bool:
    """The user's code made the current call, through the standard library at most."""
    for frame in own_frames(stack):
        if is_user(frame.file):
            return True
        if not _STANDARD.search(frame.file):
            return False
    return False


def has(stack: Stack | None, file_end: str, functions: Iterable[str]) -> bool:
    """Whether any frame is one of these functions."""
    wanted = frozenset(functions)
    return stack is not None and any(calls(frame, file_end, wanted) for frame in stack.frames)


def in_call(stack: Stack | None, rows: Iterable[Functions]) -> bool:
    """Whether a frame is in one of these functions, since the process began its own work."""
    return stack is not None and any(calls(frame, *row) for frame in own_frames(stack) for row in rows)


def interrupted(stack: Stack) -> Frame | None:
    """The wait that a signal handler interrupted, if the handler has not returned yet: the stack shows user code called by a
    function that calls no foreign code.
    """
    for inner, outer in pairwise(own_frames(stack)):
        if is_user(inner.file) and any(calls(outer, *row) for row in ONLY_WAITS):
            return outer
    return None


def _after_packages(file: str) -> str:
    return _PACKAGES.split(file)[-1]
