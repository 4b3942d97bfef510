"""SQLAlchemy, whose pools of connections keep them in a queue of its own, made after the standard library's."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library

LIBRARY = Library(copies=(("sqlalchemy/util/queue.py", "queue.py"),))
