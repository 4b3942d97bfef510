import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import asyncio
import time


async def report():
    while True:
        with open("status.json", "w") as file:
            json.dump({"at": time.time()}, file)
        await asyncio.sleep(1)


async def fill(rows):
    await asyncio.sleep(0.1)
    say("culprit", thread="MainThread")
    say("settled")
    for number in range(3):
        await rows.put(number)  # CULPRIT


async def main():
    reporter = asyncio.create_task(report())
    task = asyncio.create_task(fill(asyncio.Queue(2)))
    while not task.done():
        await asyncio.wait([task], timeout=1)
    reporter.cancel()


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    asyncio.run(main())
