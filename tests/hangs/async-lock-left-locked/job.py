import asyncio
import json
import os
import subprocess
import sys


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


STOCK = {"lamp": 1, "chair": 4}
LOCK = asyncio.Lock()


async def reserve(item):
    if item == "chair":
        say("culprit")
        say("settled")
    await LOCK.acquire()  # CULPRIT
    if not STOCK[item]:
        return "sold out"
    await asyncio.sleep(0.05)
    STOCK[item] -= 1
    LOCK.release()
    return "reserved"


async def serve(reader, writer):
    while line := await reader.readline():
        writer.write((await reserve(line.decode().strip())).encode() + b"\n")
        await writer.drain()
    writer.close()


CLIENT = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as shop:
    answers = shop.makefile()
    for item in ("lamp", "lamp", "chair"):
        shop.sendall(item.encode() + b"\\n")
        print(answers.readline(), end="")
"""


async def main():
    say("root")
    say("role", role="main")
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    # Customers are no part of the shop: the shell ends, and init takes over.
    subprocess.run(["sh", "-c", '"$0" -c "$1" "$2" &', sys.executable, CLIENT, str(port)])
    await server.serve_forever()


asyncio.run(main())
