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


def decode(seconds):
    time.sleep(seconds)


async def main():
    reporter = asyncio.create_task(report())
    say("settled")
    for seconds in (3, 6, 4, 7, 5) * 20:
        task = asyncio.create_task(asyncio.to_thread(decode, seconds))
        while not task.done():
            await asyncio.wait([task], timeout=0.5)
    reporter.cancel()


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    asyncio.run(main())
