"""The task that takes from a queue has died of an error; a task that only reports goes on beside those that put."""

import asyncio
import json
import os


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

async def store(pages):
    while True:
        page = await pages.get()
        if page == 20:
            raise KeyError(page)


async def crawl(pages):
    for page in range(1000):
        await asyncio.sleep(0.01)
        await pages.put(page)


async def status(pages):
    while True:
        await asyncio.sleep(1)
        print(f"{pages.qsize()} of {pages.maxsize} pages to store, full: {pages.full()}", flush=True)


async def run():
    pages = asyncio.Queue(maxsize=8)
    beside = [asyncio.create_task(store(pages)), asyncio.create_task(status(pages))]
    say("culprit")
    say("settled")
    await asyncio.gather(crawl(pages), crawl(pages))
    for task in beside:
        task.cancel()


def main():
    say("root")
    say("role", role="main")
    asyncio.run(run())


if __name__ == "__main__":
    main()
