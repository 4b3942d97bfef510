"""A desk answers clients in one event loop; another one, in a thread, reports every second."""
import asyncio
import json
import multiprocessing
import os
import threading


def truth(event, **more):
    line = json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


async def price(name):
    await asyncio.sleep(40 * (name == "coffee"))
    return len(name)


class Bridge:
    """Calls coroutines from code that is none."""

    def __init__(self, loop):
        self.loop = loop

    def call(self, work):
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        return future.result()


def report(loop, seen):
    async def tick():
        while True:
            print("seen", len(seen), flush=True)
            await asyncio.sleep(1)

    asyncio.set_event_loop(loop)
    loop.run_until_complete(tick())


def client(connection):
    truth("role", role="process client")
    truth("progress")
    for name in ("tea", "coffee", "water"):
        connection.send(name)
        print(name, connection.recv(), flush=True)


def main():
    truth("root")
    truth("role", role="main")
    near, far = multiprocessing.Pipe()
    multiprocessing.get_context("fork").Process(target=client, args=(far,), daemon=True).start()
    far.close()
    seen, reports = [], asyncio.new_event_loop()
    threading.Thread(target=report, args=(reports, seen), daemon=True, name="reports").start()

    async def serve():
        loop = asyncio.get_running_loop()
        outside = Bridge(reports)

        def answer():
            name = near.recv()
            seen.append(name)
            if len(seen) == 2:
                truth("settled")
            near.send(outside.call(price(name)))

        loop.add_reader(near.fileno(), answer)
        await asyncio.Event().wait()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
