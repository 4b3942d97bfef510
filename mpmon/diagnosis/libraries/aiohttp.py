"""aiohttp: what the tasks of its server wait for in its own functions."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library, awaits

LIBRARY = Library(
    awaits=(
        awaits("room", "aiohttp/base_protocol.py", "_drain_helper"),
        awaits("requests", "aiohttp/web_protocol.py", "start"),
    ),
)  # fmt: skip
