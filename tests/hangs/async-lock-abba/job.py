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


async def move(first, second, there):
    async with first:
        there.release()
        await asyncio.sleep(0.2)
        async with second:  # CULPRIT
            print("moved")


async def main():
    say("root")
    say("role", role="main")
    beat = asyncio.create_task(heartbeat())
    one, two, there = asyncio.Lock(), asyncio.Lock(), asyncio.Semaphore(0)
    moves = asyncio.gather(move(one, two, there), move(two, one, there))
    await there.acquire()
    await there.acquire()
    await asyncio.sleep(0.5)
    say("culprit")
    say("settled")
    await moves
    beat.cancel()


asyncio.run(main())
