"""New files for data about a job: command lines, files, hosts, names in the user's code.

Only mpmon's user can read them, whatever the umask: root may watch another user's job and write to a folder that everybody
can read. The owner may share them (chmod(1)).
"""

from __future__ import annotations

import os

_MODE = 0o600
"""Only the owner can read and write."""


def make(path: str | os.PathLike[str]) -> int:
    """A descriptor of a new file, open for writing; an existing link in its place counts as an existing file.

    Raises:
        OSError: as open(2); FileExistsError where something is there already.
    """
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
