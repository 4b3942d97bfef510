"""asyncio: event loops."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library, Wait, functions, waits

LIBRARY = Library(
    waits=(
        waits(Wait.EVENT_LOOP, "asyncio/base_events.py", "_run_once run_forever", "events of its loop"),
        # A loop without frames of its own, such as uvloop's.
        waits(Wait.EVENT_LOOP, "asyncio/runners.py", "run", "events of its loop"),
        # A thread that only tells the loop when a child has ended.
        waits(Wait.SERVICE, "asyncio/unix_events.py", "_do_waitpid", "the end of a child"),
    ),
    turns=(functions("asyncio/base_events.py", "_run_once"), functions("asyncio/runners.py", "run")),
    only_waits=(functions("/selectors.py", "select"),),
)  # fmt: skip
