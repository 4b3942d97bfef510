"""Who holds a lock that is not the object of a `with` block itself: by whatever way it was taken, in every known version."""

from __future__ import annotations

import subprocess

import pytest

from tests.live.interpreters import VERSIONS, interpreters
from tests.probes.test_interpreter import look, sleepers, waits

PROGRAM = """
import contextlib, os, sys, threading

lock, other, never = threading.Lock(), threading.Lock(), threading.Event()

def say():
    os.write(1, b"%d\\n" % threading.get_native_id())
    never.wait()

class Store:
    def __init__(self):
        self.lock, self.other = lock, other

    @contextlib.contextmanager
    def session(self):
        with self.lock:
            yield

    def generator(self):
        with self.session():
            say()

    def stack(self):
        with contextlib.ExitStack() as stack:
            for one in (self.other, self.lock):
                stack.enter_context(one)
            say()

    def block(self):
        with Transaction(self):
            say()

    def hand(self):
        self.lock.acquire()
        try:
            say()
        finally:
            self.lock.release()

    def past(self):
        lock.acquire()
        try:
            len("")
        finally:
            lock.release()
        say()

class Transaction:
    def __init__(self, store):
        self.store = store

    def __enter__(self):
        self.store.lock.acquire()

    def __exit__(self, *_):
        self.store.lock.release()

for way in sys.argv[1:]:
    threading.Thread(target=getattr(Store(), way), daemon=True).start()
lock.acquire()
"""
"""Its main thread waits for a lock that other threads hold, each in one way."""


def seen(version: str, *ways: str) -> list[tuple[str, str, bool]]:
    """Threads that hold the lock that the main thread waits for, as the way each of them took it, its kind, and exactness."""
    python = interpreters().get(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on the path, under pyenv or under uv")
    with subprocess.Popen([python, "-c", PROGRAM, *ways], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            ready = {int(process.stdout.readline()) for _ in ways} | {process.pid}
            # They may not have come to their waits when they say so.
            found = look(pid=process.pid, until=lambda _: ready <= sleepers(process.pid).keys())
            found = look(pid=process.pid, until=waits(process.pid))
        finally:
            process.kill()
    (wanted,) = [row.object for row in found.locks if row.tid == process.pid and not row.holds]
    return [
        ((row.function or "").rpartition(".")[2], row.kind, row.exact)
        for row in found.locks
        if row.holds and row.object == wanted
    ]


@pytest.mark.parametrize(("way", "exact"), [("generator", True), ("stack", True), ("block", False), ("hand", False)])
@pytest.mark.parametrize("version", VERSIONS)
def test_who_holds_the_lock(version: str, way: str, *, exact: bool) -> None:
    assert seen(version, way) == [(way, "Lock", exact)]


@pytest.mark.parametrize("version", VERSIONS)
def test_of_two_that_take_locks_by_hand_either_may_have_it(version: str) -> None:
    assert seen(version, "past", "hand") == []
    assert seen(version, "past", "generator") == [("generator", "Lock", False)]
