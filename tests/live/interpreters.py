"""Which interpreters there are on this machine, by version."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.patience import NEVER_S

VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
"""Those mpmon is made for."""

PLACES = (".pyenv/versions", ".local/share/uv/python")
"""Folders below the home folder in which other tools keep interpreters."""

QUESTION = "import sys; print(sys.implementation.name, '%d.%d' % sys.version_info[:2], sys.executable)"


@cache
def interpreters() -> dict[str, str]:
    """The path of an interpreter by version; for its own version the one that runs this."""
    found: dict[str, str] = {}
    for candidate in _candidates():
        answer = _ask(candidate)
        if answer and answer[0] not in found:
            found[answer[0]] = answer[1]
    return found


def _candidates() -> Iterator[str]:
    yield sys.executable
    for version in VERSIONS:
        path = shutil.which(f"python{version}")
        if path:
            yield path
    for place in PLACES:
        yield from map(str, sorted(Path.home().joinpath(place).glob("*/bin/python3")))


def _ask(path: str) -> tuple[str, str] | None:
    """Version and place of a CPython; a shim may be on the path for a version that it does not have."""
    try:
        said = subprocess.run(
            [path, "-c", QUESTION], capture_output=True, text=True, timeout=NEVER_S, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    name, version, executable = said.strip().split(" ", 2)
    return (version, executable) if name == "cpython" else None
