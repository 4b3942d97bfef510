"""A server whose requests wait for a connection in its threads: those that have one use it for seconds, in a thread or not,
and give it back without a thread.
"""

import json
import os
import socket
import sqlite3
import threading
import time
import urllib.request

import anyio.to_thread
import uvicorn
from sqlalchemy.pool import QueuePool

THREADS, CONNECTIONS, REQUESTS = 4, 2, 12


def say(event, **more):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(fd)


class Connections:
    def __init__(self, number):
        self.pool = QueuePool(opened, pool_size=number, max_overflow=0, timeout=86400)
        self.lock, self.asking = threading.Lock(), 0

    def take(self):
        with self.lock:
            self.asking += 1
            if self.asking == THREADS + CONNECTIONS:
                say("settled")
        return self.pool.connect()

    def give(self, one):
        one.close()


def opened():
    return sqlite3.connect(":memory:", check_same_thread=False)


connections = Connections(CONNECTIONS)


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        return
    one = await anyio.to_thread.run_sync(connections.take)
    await anyio.sleep(7)
    connections.give(one)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def ask(port):
    """Another program asks: all at once."""
    if os.fork():
        os.wait()
        return
    if os.fork():
        os._exit(0)
    time.sleep(2)
    clients = [
        threading.Thread(target=urllib.request.urlopen, args=(f"http://127.0.0.1:{port}/",)) for _ in range(REQUESTS)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    os._exit(0)


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ask(port)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
