"""joblib, and loky, its executor of processes."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import HelperRow, Library, Wait, polls

LIBRARY = Library(
    copies=(
        ("loky/process_executor.py", "concurrent/futures/process.py"),
        ("loky/backend/", "multiprocessing/"),
        ("joblib/pool.py", "multiprocessing/queues.py"),
    ),
    polls=(polls(Wait.POOL_RESULT, "_wait_retrieval ._aborting", "the result of a pool task"),),
    helpers=(HelperRow("resource tracker", "loky.backend.resource_tracker import main", lasts=True),),
    bundles=("joblib/externals/",),
)
