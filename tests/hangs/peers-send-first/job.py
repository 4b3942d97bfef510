import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import asyncio
import multiprocessing as mp
import socket

STATE = b"s" * (32 << 20)


async def exchange(sock):
    reader, writer = await asyncio.open_connection(sock=sock)
    writer.write(len(STATE).to_bytes(8, "big") + STATE)
    await writer.drain()  # CULPRIT
    size = int.from_bytes(await reader.readexactly(8), "big")
    return len(await reader.readexactly(size))


def replica(sock, done):
    say("role", role="process replica")
    say("culprit", thread="MainThread")
    done.send(asyncio.run(exchange(sock)))


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    server = socket.create_server(("127.0.0.1", 0))
    east = socket.create_connection(server.getsockname())
    west, _ = server.accept()
    here, there = mp.Pipe()
    for sock in (east, west):
        mp.Process(target=replica, args=(sock, there), daemon=True).start()
    say("settled")
    print(here.recv() + here.recv())
