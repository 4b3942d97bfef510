import json
import os
import asyncio
import sys
import time


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def settle(n):
    """Whoever is the last of n parties to report also reports that all are in place."""
    with open(os.environ.get("CORPUS_TRUTH", os.devnull)) as f:
        if sum('"waiter"' in x or '"culprit"' in x for x in f) >= n:
            say("settled")


def convert(name):
    """The child: prints a line for each page."""
    say("role", role=f"process converter {name}")
    say("culprit", thread="MainThread")
    settle(2)
    for page in range(100_000):
        emit(f"{name}: page {page} of 100000 converted, {page * 37 % 4096} bytes")


def emit(line):
    sys.stdout.write(line + "\n")  # CULPRIT


class Converter:
    def __init__(self, name):
        self.name = name
        self.proc = None

    async def start(self):
        self.proc = await asyncio.create_subprocess_exec(
            sys.executable, "job.py", self.name, stdout=asyncio.subprocess.PIPE)

    async def finish(self):
        code = await self.proc.wait()  # CULPRIT
        return code, (await self.proc.stdout.read()).decode()


class Health:
    """What the orchestrator probes."""

    def __init__(self):
        self.beats = 0

    async def run(self):
        while True:
            await asyncio.sleep(1)
            self.beats += 1


class Service:
    def __init__(self, names):
        self.names = names
        self.results = asyncio.Queue()

    async def one(self, name):
        c = Converter(name)
        await c.start()
        await self.results.put(await c.finish())

    async def run(self):
        health = asyncio.create_task(Health().run())
        jobs = [asyncio.create_task(self.one(n)) for n in self.names]
        for _ in jobs:
            code, text = await self.results.get()
            print(code, len(text))
        health.cancel()


def main():
    say("root")
    say("role", role="main")
    say("culprit", thread="MainThread")
    asyncio.run(Service(["thesis"]).run())


if __name__ == "__main__":
    convert(sys.argv[1]) if len(sys.argv) > 1 else main()
