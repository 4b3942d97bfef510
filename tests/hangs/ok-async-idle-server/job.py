import json
import os
import asyncio


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


async def heartbeat():
    while True:
        await asyncio.sleep(1)


async def handle(reader, writer):
    writer.write(await reader.readline())
    await writer.drain()
    writer.close()


async def main():
    say("root")
    say("role", role="main")
    kept = asyncio.create_task(heartbeat())
    closed = asyncio.Event()
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        say("settled")
        await closed.wait()
    kept.cancel()


asyncio.run(main())
