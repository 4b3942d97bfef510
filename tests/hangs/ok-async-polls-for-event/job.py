import json
import os
import asyncio


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


async def heartbeat():
    while True:
        await asyncio.sleep(1)


async def poll(path, found):
    while not os.path.exists(path):
        await asyncio.sleep(1)
    found.set()


async def main():
    say("root")
    say("role", role="main")
    found = asyncio.Event()
    watcher = asyncio.create_task(poll("/nonexistent/marker", found))
    beat = asyncio.create_task(heartbeat())
    say("settled")
    await found.wait()
    beat.cancel()
    await watcher


asyncio.run(main())
