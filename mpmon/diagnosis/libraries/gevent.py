"""gevent: the hub, the event loop of all greenlets of a thread."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library, Wait, waits

LIBRARY = Library(waits=(waits(Wait.EVENT_LOOP, "gevent/hub.py", "run", "events of its loop"),))
