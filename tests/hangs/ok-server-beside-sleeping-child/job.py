import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import asyncio
import multiprocessing as mp
import time

CTX = mp.get_context("fork")


def stand_by():
    while True:
        time.sleep(600)


async def answer(reader, writer):
    writer.close()


async def serve():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    CTX.Process(target=stand_by, daemon=True).start()
    say("settled")
    asyncio.run(serve())
