import asyncio
import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


class Mailbox:
    """Answers, each a future that whoever posts to it completes."""

    def __init__(self):
        self.waiting = {}

    def post(self, key, value):
        if future := self.waiting.pop(key, None):
            future.set_result(value)

    async def take(self, key):
        self.waiting[key] = asyncio.get_running_loop().create_future()
        return await self.waiting[key]  # CULPRIT


async def price(box, item):
    await asyncio.sleep(0.05)
    box.post(item.lower(), len(item))


async def ask(box, item):
    asyncio.create_task(price(box, item))
    if item != item.lower():
        say("culprit")
        say("settled")
    return await box.take(item)


async def main():
    say("root")
    say("role", role="main")
    box = Mailbox()
    for item in ("tea", "milk", "Sugar"):
        print(item, await ask(box, item))


asyncio.run(main())
