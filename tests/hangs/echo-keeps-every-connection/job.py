import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import asyncio
import logging
import multiprocessing as mp
import resource
import socket

logging.basicConfig(level=logging.CRITICAL)
KEPT = []


async def answer(reader, writer):
    """Answers one line; the connection is kept for whoever may look at it later."""
    KEPT.append((reader, writer))
    writer.write(await reader.readline())
    await writer.drain()


def serve(pipe):
    say("role", role="process echo")
    say("culprit", thread="MainThread")
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))

    async def main():
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname())
        await server.serve_forever()

    asyncio.run(main())  # CULPRIT


def ask(address, text):
    connection = socket.create_connection(address)
    connection.sendall(text.encode() + b"\n")
    return connection, connection.recv(100)


def main():
    say("root")
    say("role", role="main")
    near, far = mp.Pipe()
    mp.Process(target=serve, args=(far,), name="echo", daemon=True).start()
    address, answers = near.recv(), []
    for number in range(100):
        answers.append(ask(address, f"request {number}"))
        if number == 20:
            say("settled")


if __name__ == "__main__":
    main()
