import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import asyncio
import multiprocessing as mp
import signal

PAGE = b"x" * 300_000


async def page(reader, writer):
    """Answers each line with a page."""
    while await reader.readline():
        writer.write(b"200\n")
        writer.write(PAGE)
        await writer.drain()


def serve(pipe):
    say("role", role="process pages")

    async def main():
        server = await asyncio.start_server(page, "127.0.0.1", 0)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.close)
        pipe.send(server.sockets[0].getsockname())
        async with server:
            await server.serve_forever()

    asyncio.run(main())


class Pool:
    """Connections, of which each is given back once its page has been read."""

    def __init__(self, address, size):
        self.address, self.free, self.waiting = address, size, []

    async def get(self):
        if not self.free:
            self.waiting.append(asyncio.get_running_loop().create_future())
            await self.waiting[-1]  # CULPRIT
        self.free -= 1
        reader, writer = await asyncio.open_connection(*self.address)
        writer.write(b"next\n")
        return int(await reader.readline()), reader, writer

    def put(self):
        self.free += 1
        if self.waiting:
            self.waiting.pop(0).set_result(None)


async def crawl(address):
    pool, pages = Pool(address, 3), []
    for number in range(10):
        if number == 3:
            say("settled")
        status, *connection = await pool.get()
        print(number, status)
        pages.append(connection)


def main():
    say("root")
    say("role", role="main")
    say("culprit", thread="MainThread")
    near, far = mp.Pipe()
    mp.Process(target=serve, args=(far,), name="pages", daemon=True).start()
    asyncio.run(crawl(near.recv()))


if __name__ == "__main__":
    main()
