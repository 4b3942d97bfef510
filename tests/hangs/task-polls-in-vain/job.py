import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import asyncio
import multiprocessing as mp

CTX = mp.get_context("fork")


class Prices:
    def __init__(self):
        self.rows = []

    async def settled(self):
        while not self.rows:
            await asyncio.sleep(0.2)  # CULPRIT
        return self.rows[-1]


async def serve(out):
    prices = Prices()
    out.send(await prices.settled())


def service(out):
    say("role", role="process service")
    say("culprit", thread="MainThread")
    say("settled")
    asyncio.run(serve(out))


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    receiver, sender = CTX.Pipe(False)
    CTX.Process(target=service, args=(sender,)).start()
    receiver.recv()
