import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import asyncio
import threading
import time


async def report():
    while True:
        with open("status.json", "w") as file:
            json.dump({"at": time.time()}, file)
        await asyncio.sleep(1)


def decode(ready):
    say("culprit", thread="asyncio_0")
    say("settled")
    ready.wait()  # CULPRIT


async def main():
    reporter = asyncio.create_task(report())
    await asyncio.to_thread(decode, threading.Event())
    reporter.cancel()


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    asyncio.run(main())
