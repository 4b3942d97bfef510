"""subprocess."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library, Wait, functions, polls, waits

LIBRARY = Library(
    waits=(
        waits(
            Wait.JOIN_PROCESS, "/subprocess.py",
            "wait _wait call run check_call check_output communicate _communicate _try_wait", "a subprocess to exit",
        ),
    ),
    polls=(polls(Wait.JOIN_PROCESS, "poll .returncode", "a subprocess to exit"),),
    only_waits=(functions("/subprocess.py", "_try_wait"),),
)  # fmt: skip
