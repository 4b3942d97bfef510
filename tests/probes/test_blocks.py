"""Locks of a program's own making: who is in a `with` block of one, and who polls to enter it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from mpmon.probes.files import Proc
from mpmon.probes.interpreter import blocks_held, look_inside
from mpmon.probes.interpreter.layouts import TABLE
from tests.probes.test_interpreter import standing

pytestmark = pytest.mark.skipif(sys.version_info[:2] not in TABLE, reason="a Python whose layout is not known")


class FolderLock:
    """A lock of a folder, which is entered once `end` is set."""

    def __init__(self, path: Path | str, ready: threading.Event, end: threading.Event | None) -> None:
        self.path = path
        self.ready, self.end = ready, end

    def __enter__(self) -> None:
        os.fspath(self.path)
        if self.end:
            self.ready.set()
            self.end.wait()

    def __exit__(self, *_: object) -> None:
        """Nothing to do."""


def of_path(path: str, ready: threading.Event, end: threading.Event | None) -> FolderLock:
    return FolderLock(Path(path), ready, end)


@contextmanager
def claimed(path: str, ready: threading.Event, end: threading.Event | None) -> Generator[None]:
    """The same as a function."""
    os.fspath(path)
    if end:
        ready.set()
        end.wait()
    yield


Make = Callable[[str, threading.Event, threading.Event | None], AbstractContextManager[None]]


def holding(make: Make, path: str) -> Callable[[threading.Event, threading.Event], None]:
    def work(ready: threading.Event, end: threading.Event) -> None:
        with make(path, ready, None):
            ready.set()
            end.wait()

    return work


def entering(make: Make, path: str) -> Callable[[threading.Event, threading.Event], None]:
    def work(ready: threading.Event, end: threading.Event) -> None:
        with make(path, ready, end):
            pass

    return work


@pytest.mark.parametrize("make", [FolderLock, of_path, claimed])
def test_who_is_in_the_block_that_another_is_about_to_enter(make: Make) -> None:
    with standing(holding(make, "a/lock"), holding(make, "b/lock"), entering(make, "a/lock")) as (holder, _, waiter):
        found = look_inside(Proc(), os.getpid(), {}, looping=[waiter])
        (wanted,) = [row for row in found.locks if row.of_block]
        held = blocks_held(Proc(), os.getpid(), frozenset({wanted.object}))
    assert (wanted.tid, wanted.holds, wanted.function, wanted.exact) == (waiter, False, "__enter__", False)
    assert [(row.tid, row.kind, row.function) for row in held] == [(holder, wanted.kind, "work")]
    assert wanted.kind in ("FolderLock", "claimed")


class Unnamed:
    """A lock that nothing tells from another one of its class."""

    def __init__(self, ready: threading.Event, end: threading.Event | None) -> None:
        self.ready, self.end = ready, end

    __enter__, __exit__ = FolderLock.__enter__, FolderLock.__exit__
    path = "its class's"


@pytest.mark.parametrize(
    ("make", "known"), [(FolderLock, True), (lambda _, *rest: Unnamed(*rest), False)], ids=["named", "unnamed"]
)
@pytest.mark.parametrize("polls", [True, False])
def test_on_its_way_into_a_block_a_thread_waits_for_one_with_a_name(make: Make, *, known: bool, polls: bool) -> None:
    with standing(holding(make, "a/lock"), entering(make, "a/lock")) as (_, waiter):
        found = look_inside(Proc(), os.getpid(), {waiter: f"futex:{os.getpid()}:1"}, looping=[waiter] if polls else [])
    assert [(row.tid, row.asleep) for row in found.locks if row.of_block] == ([(waiter, not polls)] if known else [])


def test_a_thread_that_polls_is_one_that_polls_also_while_it_sleeps() -> None:
    with standing(holding(FolderLock, "a/lock"), entering(FolderLock, "a/lock")) as (_, waiter):
        found = look_inside(Proc(), os.getpid(), {waiter: f"futex:{os.getpid()}:1"}, looping=[waiter])
    assert [(row.tid, row.asleep) for row in found.locks if row.of_block] == [(waiter, False)]


def test_a_thread_that_sleeps_in_a_lock_on_its_way_is_told_by_that_lock() -> None:
    inner = threading.Lock()

    class Guarded(FolderLock):
        def __enter__(self) -> None:
            if self.end:
                self.ready.set()
                with inner:
                    """Nothing to do."""

    inner.acquire()
    with standing(entering(Guarded, "a/lock")) as (waiter,):
        found = look_inside(Proc(), os.getpid(), {waiter: f"futex:{os.getpid()}:1"})
        inner.release()
    assert not [row for row in found.locks if row.of_block]


def test_a_thread_that_enters_nothing_wants_nothing() -> None:
    with standing(holding(FolderLock, "a/lock")) as (holder,):
        found = look_inside(Proc(), os.getpid(), {}, looping=[holder])
    assert not [row for row in found.locks if row.of_block]
