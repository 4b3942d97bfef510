"""A handler of a server asks the server itself again and again, and there is a thread for that."""

import asyncio
import json
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


async def answer(reader, writer):
    path = (await reader.readline()).decode().strip()
    loop = asyncio.get_running_loop()
    text = await loop.run_in_executor(pool, {"inner": inner, "outer": outer}[path])
    writer.write(f"{text}\n".encode())
    await writer.drain()
    writer.close()


def ask(path):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(f"{path}\n".encode())
        return connection.makefile().readline()


def inner():
    return "one"


def outer():
    truth("settled")
    for _ in range(600):
        time.sleep(0.1)
        ask("inner")
    return "many"


async def main():
    global port
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    threading.Thread(target=ask, args=("outer",), name="client", daemon=True).start()
    while True:
        await asyncio.sleep(0.1)


truth("root")
pool = ThreadPoolExecutor(2)
asyncio.run(main())
