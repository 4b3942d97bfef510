import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import asyncio
import queue

CONNECTIONS = queue.Queue()


async def order(customer):
    connection = CONNECTIONS.get(timeout=86400)  # CULPRIT
    try:
        await asyncio.sleep(0.2)
        return customer * 2
    finally:
        CONNECTIONS.put(connection)


async def main():
    say("root")
    say("role", role="main")
    say("culprit", thread="MainThread")
    for number in range(2):
        CONNECTIONS.put(f"connection {number}")
    print(await order(0))
    say("settled")
    print(await asyncio.gather(*(order(customer) for customer in range(5))))


asyncio.run(main())
