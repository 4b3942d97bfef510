from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpmon.probes import syscalls
from mpmon.probes.files import Proc
from mpmon.probes.kernel import threads
from mpmon.probes.libc import OPENAT2, call
from tests.probes.tree import FIXTURE, Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """An empty tree in the form of /proc."""
    return Tree(tmp_path / "proc")


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proc]:
    """A copy of the recorded tree, with the system calls of the machine it was recorded on."""
    monkeypatch.setattr(threads, "SYSCALLS", syscalls._X86_64)
    proc = Proc(shutil.copytree(FIXTURE, tmp_path / "recorded", symlinks=True))
    yield proc
    proc.close()


@pytest.fixture
def openat2() -> None:
    """A kernel that keeps links inside of a folder; elsewhere they are refused."""
    how = struct.pack("=QQQ", os.O_PATH, 0, 0)
    try:
        os.close(call(OPENAT2, -1, b"/", how, len(how)))
    except OSError as problem:
        pytest.skip(f"openat2: {problem.strerror}")
