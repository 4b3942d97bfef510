import json
import os
import asyncio
import subprocess
import sys
import urllib.request


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


TOKENS, BOOKS = asyncio.Lock(), asyncio.Lock()


async def renew():
    async with BOOKS:
        await asyncio.sleep(20)
        return b"renewed"


async def handle(reader, writer):
    await reader.readline()
    async with TOKENS:
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + await renew())
    await writer.drain()
    writer.close()


async def serve():
    say("root")
    say("role", role="main")
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    clients = [subprocess.Popen([sys.executable, __file__, str(port)]) for _ in range(2)]
    say("settled")
    while any(client.poll() is None for client in clients):
        await asyncio.sleep(1)


def ask(port):
    for _ in range(3):
        print(urllib.request.urlopen(f"http://127.0.0.1:{port}/").read())


if len(sys.argv) > 1:
    ask(sys.argv[1])
else:
    asyncio.run(serve())
