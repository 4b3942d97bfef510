import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import asyncio
import threading


async def load():
    say("culprit", thread="MainThread")
    say("settled")
    threading.Event().wait()  # CULPRIT


async def main():
    task = asyncio.create_task(load())
    while not task.done():
        await asyncio.sleep(0.3)


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    asyncio.run(main())
