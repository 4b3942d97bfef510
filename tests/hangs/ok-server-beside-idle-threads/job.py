import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import asyncio
import queue
import threading
import time

JOBS, SLOTS, RUNNING = queue.Queue(), threading.Semaphore(0), [True]


def work():
    while True:
        JOBS.get()()


def drain():
    while True:
        SLOTS.acquire()


def count():
    turns = 0
    while RUNNING[0]:
        turns += 1
        time.sleep(3)


async def answer(reader, writer):
    writer.close()


async def serve():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    for target in (work, drain, count):
        threading.Thread(target=target, daemon=True).start()
    say("settled")
    asyncio.run(serve())
