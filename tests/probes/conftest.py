from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpmon.probes import syscalls
from mpmon.probes.files import Proc
from mpmon.probes.kernel import threads
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
