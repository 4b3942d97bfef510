import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import asyncio
import threading
import time


class Feed:
    def __init__(self):
        self.rows = []

    def read(self):
        while True:
            time.sleep(4)
            self.rows.append(time.time())


async def main():
    feed = Feed()
    threading.Thread(target=feed.read, daemon=True).start()
    say("settled")
    while True:
        while not feed.rows:
            await asyncio.sleep(0.25)
        feed.rows.clear()


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    asyncio.run(main())
