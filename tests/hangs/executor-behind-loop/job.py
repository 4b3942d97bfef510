"""Both threads of a pool wait for coroutines of an event loop, which hand their reading to the same pool."""

import asyncio
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor


def say(event, **more):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(fd)


class Catalogue:
    def __init__(self, pool):
        self.pool, self.loop = pool, asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="catalogue", daemon=True).start()

    def read(self, name):
        time.sleep(0.1)
        return name.title()

    async def title(self, name):
        return await self.loop.run_in_executor(self.pool, self.read, name)

    async def tick(self):
        while True:
            await asyncio.sleep(1)


pool = ThreadPoolExecutor(2, thread_name_prefix="render")
catalogue, both = Catalogue(pool), threading.Barrier(2)


def render(name):
    both.wait()
    title = asyncio.run_coroutine_threadsafe(catalogue.title(name), catalogue.loop)
    say("culprit", thread=threading.current_thread().name)
    say("settled")
    return f"<h1>{title.result()}</h1>"  # CULPRIT


def main():
    say("root")
    say("role", role="main")
    asyncio.run_coroutine_threadsafe(catalogue.tick(), catalogue.loop)
    for page in pool.map(render, ["fields", "groups"]):
        print(page)


if __name__ == "__main__":
    main()
