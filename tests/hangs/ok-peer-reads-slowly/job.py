import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import asyncio
import multiprocessing as mp
import socket
import time


async def send(sock):
    _, writer = await asyncio.open_connection(sock=sock)
    while True:
        writer.write(b"s" * (4 << 20))
        await writer.drain()


def sender(sock):
    say("role", role="process sender")
    asyncio.run(send(sock))


def digest(sock):
    say("role", role="process digest")
    seen = 0
    while data := sock.recv(1 << 20):
        say("progress")
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            seen += sum(data[:1000])


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    one, other = socket.socketpair()
    mp.Process(target=sender, args=(one,), daemon=True).start()
    reader = mp.Process(target=digest, args=(other,), daemon=True)
    reader.start()
    say("settled")
    reader.join()
