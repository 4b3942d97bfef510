import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import asyncio


class Answers:
    def __init__(self):
        self.turns, self.waiting = 0, {}

    async def tick(self):
        while True:
            self.turns += 1
            await asyncio.sleep(0.5)

    async def ask(self, number):
        self.waiting[number] = asyncio.get_running_loop().create_future()
        say("culprit", thread="MainThread")
        say("settled")
        return await self.waiting[number]  # CULPRIT


async def main():
    answers = Answers()
    ticker = asyncio.create_task(answers.tick())
    await asyncio.sleep(0.2)
    print(await answers.ask(1))
    ticker.cancel()


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    asyncio.run(main())
