"""uvicorn: what the tasks of requests wait for in its own functions."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library, awaits

LIBRARY = Library(
    awaits=(
        awaits("body", "uvicorn/protocols/http/h11_impl.py", "receive"),
        awaits("body", "uvicorn/protocols/http/httptools_impl.py", "receive"),
        awaits("room", "uvicorn/protocols/http/flow_control.py", "drain"),
        awaits("room", "uvicorn/protocols/websockets/websockets_sansio_impl.py", "send"),
        awaits("room", "uvicorn/protocols/websockets/wsproto_impl.py", "send"),
        awaits("requests", "uvicorn/protocols/websockets/websockets_sansio_impl.py", "receive"),
        awaits("requests", "uvicorn/protocols/websockets/wsproto_impl.py", "receive"),
        awaits("requests", "uvicorn/lifespan/on.py", "receive"),
    ),
)  # fmt: skip
