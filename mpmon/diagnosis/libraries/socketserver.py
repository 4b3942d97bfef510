"""socketserver and socket; servers of http and xmlrpc are built on them."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library, Wait, functions, waits

LIBRARY = Library(
    waits=(
        waits(Wait.SERVICE, "/socketserver.py", "serve_forever", "requests"),
        waits(Wait.SERVICE, "http/server.py", "handle_one_request", "requests", called="readinto"),
    ),
    serves_one=(functions("/socketserver.py", "process_request process_request_thread"),),
    # A server without threads handles a request inside its loop.
    turns=(functions("/socketserver.py", "_handle_request_noblock"),),
    only_waits=(functions("/socket.py", "readinto accept"),),
)
