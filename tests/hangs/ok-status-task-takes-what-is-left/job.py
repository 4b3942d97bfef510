"""A task looks every eight seconds what is in a queue, and takes it."""

import asyncio
import json
import os


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

async def crawl(pages):
    for page in range(1000):
        await asyncio.sleep(0.01)
        await pages.put(page)


async def store(pages):
    while True:
        await asyncio.sleep(8)
        say("progress")
        if pages.full():
            while not pages.empty():
                pages.get_nowait()


async def run():
    pages = asyncio.Queue(maxsize=8)
    beside = asyncio.create_task(store(pages))
    say("settled")
    await asyncio.gather(crawl(pages), crawl(pages))
    beside.cancel()


def main():
    say("root")
    say("role", role="main")
    asyncio.run(run())


if __name__ == "__main__":
    main()
