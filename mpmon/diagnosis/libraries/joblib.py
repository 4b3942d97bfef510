"""joblib, and loky, its executor of processes."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library

LIBRARY = Library(
    copies=(
        ("loky/process_executor.py", "concurrent/futures/process.py"),
        ("loky/backend/", "multiprocessing/"),
    ),
    bundles=("joblib/externals/",),
)
