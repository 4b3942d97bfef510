import asyncio
import multiprocessing as mp
import sys

from events import say


class Filter:
    async def start(self):
        self.p = await asyncio.create_subprocess_exec(sys.executable, "filt.py", stdin=asyncio.subprocess.PIPE,
                                                      stdout=asyncio.subprocess.PIPE)
        return self

    async def feed(self, rows):
        for k, v in rows:
            self.p.stdin.write(f"{k}\t{v}\n".encode())
            await self.p.stdin.drain()

    async def results(self):
        while line := await self.p.stdout.readline():  # CULPRIT
            yield line.decode().rstrip().split("\t")


class Driver:
    def __init__(self):
        self.rows = [(i * 37 % 101, i) for i in range(101)]

    async def heartbeat(self):
        while True:
            await asyncio.sleep(1)
            self.t = asyncio.get_running_loop().time()

    async def run(self):
        hb = asyncio.create_task(self.heartbeat())
        f = await Filter().start()
        await f.feed(self.rows)
        say("culprit", thread="MainThread")
        say("settled")
        out = [r async for r in f.results()]
        hb.cancel()
        return out


def driver_main():
    say("role", role="process driver")
    asyncio.run(Driver().run())


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    p = mp.get_context("fork").Process(target=driver_main)
    p.start()
    p.join()


if __name__ == "__main__":
    main()
