import json
import os
import asyncio
import threading
import urllib.request


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


async def handle(reader, writer):
    line = await reader.readline()
    while (await reader.readline()).strip():
        pass
    if b"/outer" in line:
        say("culprit")
        say("settled")
        port = writer.get_extra_info("sockname")[1]
        body = urllib.request.urlopen(f"http://127.0.0.1:{port}/inner").read()  # CULPRIT
    else:
        body = b"inner"
    writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + body)
    await writer.drain()
    writer.close()


def ask(port):
    print(urllib.request.urlopen(f"http://127.0.0.1:{port}/outer").read())


async def main():
    say("root")
    say("role", role="main")
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    threading.Thread(target=ask, args=(port,)).start()
    async with server:
        await server.serve_forever()


asyncio.run(main())
