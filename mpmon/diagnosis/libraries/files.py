"""os.path and pathlib: a file whose existence tells something."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library, Wait, polls

LIBRARY = Library(polls=(polls(Wait.FILE_MARK, "exists lexists isfile isdir is_file is_dir", "a file to appear"),))
