"""Who holds the permits of a semaphore that a thread waits for, and whether anybody else may give one back."""

from __future__ import annotations

import subprocess

import pytest

from tests.live.interpreters import VERSIONS, interpreters
from tests.probes.test_interpreter import look, sleepers

PROGRAM = """
import os, sys, threading

permits, never = threading.BoundedSemaphore(len(sys.argv) - 2), threading.Event()

def say():
    os.write(1, b"%d\\n" % threading.get_native_id())
    never.wait()

def block():
    with permits:
        say()

def lost():
    permits.acquire()
    say()

def hand():
    permits.acquire()
    try:
        say()
    finally:
        permits.release()

def gives_back():
    with permits:
        pass

def keeps():
    permits.acquire()

for way in sys.argv[2:]:
    threading.Thread(target=globals()[way], daemon=True).start()
globals()[sys.argv[1]]()
"""
"""Its main thread waits for a permit, all of which other threads took, each in one way."""


def seen(version: str, asks: str, *ways: str) -> tuple[list[str], bool]:
    """The ways of those who hold a permit, and `LockUse.alone`."""
    python = interpreters().get(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on the path, under pyenv or under uv")
    with subprocess.Popen([python, "-c", PROGRAM, asks, *ways], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            ready = {int(process.stdout.readline()) for _ in ways} | {process.pid}
            # They may not have come to their waits when they say so.
            look(pid=process.pid, until=lambda _: ready <= sleepers(process.pid).keys())
            found = look(pid=process.pid, until=lambda found: any(row.of_permits for row in found.locks))
        finally:
            process.kill()
    rows = [row for row in found.locks if row.of_permits]
    (wanted,) = [row for row in rows if not row.holds]
    assert {row.object for row in rows} == {wanted.object}
    return sorted(row.function or "" for row in rows if row.holds), wanted.alone


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("asks", "ways", "holders", "alone"),
    [
        ("gives_back", ["block", "block"], ["block", "block"], True),
        ("gives_back", ["lost"], [], True),
        ("gives_back", ["block", "lost"], ["block"], True),
        ("gives_back", ["hand"], [], False),
        ("hand", ["block"], ["block"], True),
        ("keeps", ["block"], ["block"], False),
    ],
    ids=["blocks", "lost", "one-lost", "by-hand", "asked-by-hand", "asked-for-good"],
)
def test_who_holds_a_permit(version: str, asks: str, ways: list[str], holders: list[str], *, alone: bool) -> None:
    assert seen(version, asks, *ways) == (holders, alone)
