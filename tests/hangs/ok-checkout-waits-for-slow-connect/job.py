import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import asyncio
import queue
import threading
import time

CONNECTIONS = queue.Queue()


async def order(customer):
    connection = CONNECTIONS.get(timeout=86400)
    CONNECTIONS.put(connection)
    await asyncio.sleep(0.2)
    say("progress")
    return customer * 2


def connect():
    """The server of the database answers slowly."""
    for number in range(100):
        time.sleep(6)
        CONNECTIONS.put(f"connection {number}")


async def main():
    say("root")
    say("role", role="main")
    threading.Thread(target=connect, name="connects", daemon=True).start()
    say("settled")
    for customer in range(1000):
        await order(customer)


asyncio.run(main())
