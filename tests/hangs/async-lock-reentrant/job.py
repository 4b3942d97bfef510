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


LOCK = asyncio.Lock()


async def renew():
    async with LOCK:  # CULPRIT
        return b"renewed"


async def token(path):
    async with LOCK:
        if b"/expired" not in path:
            return b"token"
        say("culprit")
        say("settled")
        return await renew()


async def handle(reader, writer):
    path = await reader.readline()
    writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + await token(path))
    await writer.drain()
    writer.close()


async def serve():
    say("root")
    say("role", role="main")
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = subprocess.Popen([sys.executable, __file__, str(port)])
    while client.poll() is None:
        await asyncio.sleep(1)


def ask(port):
    for path in ("/", "/", "/expired"):
        print(urllib.request.urlopen(f"http://127.0.0.1:{port}{path}").read())


if len(sys.argv) > 1:
    ask(sys.argv[1])
else:
    asyncio.run(serve())
