"""The programs of `programs/`, on a file system that will be dead when they go on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.deadfs.mounting import Mount
from tests.live.running import Program

PROGRAMS = Path(__file__).parent / "programs"


@contextmanager
def job(
    mount: Mount, name: str, *arguments: str, python: str = sys.executable, **environment: str
) -> Iterator[Program]:
    """One that has said it is ready; at the end the file system answers, so that it can be gone."""
    with Program(str(PROGRAMS / name), mount.place, *arguments, python=python, environment=environment) as program:
        try:
            yield program.hear("ready")
        finally:
            mount.be("answer")
