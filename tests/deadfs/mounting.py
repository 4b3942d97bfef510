"""Mount it, tell it to die and to answer again, and have it gone at the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.deadfs.calls import mount, unmount
from tests.patience import readable

REPOSITORY = Path(__file__).parent.parent.parent
MOODS = ("silent", "swallow")
"""How it does not answer."""


class Asker(NamedTuple):
    """A process that has asked a file system something."""

    pid: int
    parent: int
    name: str
    """As ps(1) has it."""


class Mount:
    """One file system with its server, gone with the `with` block.

    With the pid of a process it is in the mount namespace of that process only.
    """

    source = "server:/export"
    kind = "fuse.test"
    """As mountinfo has them: proc_pid_mountinfo(5)."""

    def __init__(self, place: Path, inside: int | None = None) -> None:
        self.place = str(place)
        """The mount point, a folder."""
        self._inside = inside
        where = [] if inside is None else [str(inside)]
        self.server = subprocess.Popen(
            [sys.executable, "-m", "tests.deadfs.server", self.place, self.source, self.kind, *where],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPOSITORY, start_new_session=True,
        )  # fmt: skip
        self._hear("READY")

    def __enter__(self) -> Mount:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """It is gone at once, and every wait ends with an error; a second time does nothing."""
        self.server.kill()
        self.server.wait()
        for pipe in (self.server.stdin, self.server.stdout):
            if pipe:
                pipe.close()
        if self._inside is None:
            # Inside of another namespace there may be something else in this place here.
            with suppress(OSError):
                unmount(self.place)

    def be(self, mood: str) -> None:
        """From when this returns it is `silent`, it swallows, or it answers, also what it had swallowed."""
        self._tell(mood)

    def swallow_one(self) -> None:
        """From when this returns at least one request is swallowed: whoever waits for it cannot be killed."""
        self._tell("swallowed")

    def askers(self) -> list[Asker]:
        """Every process that has asked this file system something."""
        self._tell("askers")
        assert self.server.stdout
        found = json.loads(self.server.stdout.readline())
        return [Asker(int(pid), int(parent), name) for pid, (parent, name) in found.items()]

    def _tell(self, mood: str) -> None:
        assert self.server.stdin
        self.server.stdin.write(f"{mood}\n".encode())
        self.server.stdin.flush()
        self._hear(mood)

    def _hear(self, word: str) -> None:
        """Wait for an answer; a server that gives none is ended, so that nobody waits for it for ever."""
        assert self.server.stdout
        said = self.server.stdout.readline() if readable(self.server.stdout) else b""
        if said != f"{word}\n".encode():
            self.end()
            raise AssertionError(f"the server said {said!r} and not {word!r}")


def _why_not() -> str:
    """Why there is no such file system here; empty where there is."""
    if os.geteuid() != 0:
        return "only root may mount a file system"
    try:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as problem:
        return f"/dev/fuse cannot be opened ({(problem.strerror or '').lower()})"
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        try:
            mount(place, Mount.source, Mount.kind, device)
        except OSError as problem:
            return f"FUSE may not be mounted here ({(problem.strerror or '').lower()})"
        finally:
            os.close(device)
        unmount(place)
    return ""


_PROBLEM = _why_not()

needs_fuse = pytest.mark.skipif(bool(_PROBLEM), reason=_PROBLEM)
