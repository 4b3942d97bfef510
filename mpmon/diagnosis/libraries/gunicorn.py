"""gunicorn: its arbiter only looks after the workers."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library, Wait, waits

LIBRARY = Library(waits=(waits(Wait.LAUNCHER, "gunicorn/arbiter.py", "wait_for_signals sleep", "its workers"),))
