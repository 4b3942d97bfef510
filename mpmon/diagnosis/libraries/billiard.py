"""billiard, which Celery uses: multiprocessing with another way to start."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library

LIBRARY = Library(copies=(("billiard/", "multiprocessing/"),))
