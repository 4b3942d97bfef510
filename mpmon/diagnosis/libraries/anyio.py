"""anyio: what tasks that hand work to its threads wait for: the result, or before that a thread that is free."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library, awaits

LIBRARY = Library(awaits=(awaits("thread", "anyio/_backends/_asyncio.py", "run_sync_in_worker_thread"),))
