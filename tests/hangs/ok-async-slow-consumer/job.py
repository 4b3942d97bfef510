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


async def consume(queue):
    while True:
        await queue.get()
        await asyncio.sleep(20)


async def main():
    say("root")
    say("role", role="main")
    beat = asyncio.create_task(heartbeat())
    queue = asyncio.Queue(1)
    consumer = asyncio.create_task(consume(queue))
    say("settled")
    for number in range(100):
        await queue.put(number)
    consumer.cancel()
    beat.cancel()


asyncio.run(main())
