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
    for _ in range(2):
        print(await queue.get())
        queue.task_done()


async def main():
    say("root")
    say("role", role="main")
    beat = asyncio.create_task(heartbeat())
    queue = asyncio.Queue()
    for number in range(5):
        queue.put_nowait(number)
    consumers = [asyncio.create_task(consume(queue)) for _ in range(2)]
    await asyncio.sleep(0.1)
    say("culprit")
    say("settled")
    await queue.join()  # CULPRIT
    beat.cancel()
    await asyncio.gather(*consumers)


asyncio.run(main())
