"""Files for what is on the screen, written beside the user's work and never over an older one; for nobody else to read."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from mpmon import private

if TYPE_CHECKING:
    from pathlib import Path

    from mpmon.model import Snapshot


def file_stem(snapshot: Snapshot) -> str:
    """`mpmon-4100-20260101-120000`: the job and the moment shown."""
    moment = time.strftime("%Y%m%d-%H%M%S", time.localtime(snapshot.taken_at))
    return f"mpmon-{snapshot.root_pid}-{moment}"


def write_new(stem: str, contents: dict[str, str], folder: Path) -> str:
    """Writes one file for each suffix, its last line ended, and returns their common stem.

    Raises:
        OSError: The folder may not be written to, or is full.
    """
    name = stem
    number = 1
    while any((folder / f"{name}{suffix}").exists() for suffix in contents):
        number += 1
        name = f"{stem}-{number}"
    for suffix, content in contents.items():
        with os.fdopen(private.make(folder / f"{name}{suffix}"), "w", encoding="utf-8") as file:
            file.write(content if content.endswith("\n") else f"{content}\n")
    return name
