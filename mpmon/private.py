"""New files for what mpmon saw of a job: its command lines, files and hosts, its user's code.

They are for the eyes of whoever runs mpmon, whatever the umask says: root may watch another user's job and write to a folder
that everybody can read.  The owner may hand them on (chmod(1)).
"""

from __future__ import annotations

import os

_MODE = 0o600
"""The owner reads and writes, nobody else does either."""


def make(path: str | os.PathLike[str]) -> int:
    """A descriptor of a file that was not there, to write to; a link in its place counts as being there.

    Raises:
        OSError: as open(2); FileExistsError where something is there already.
    """
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
