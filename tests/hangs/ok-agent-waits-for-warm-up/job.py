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


async def load():
    shards = []
    for number in range(20):
        await asyncio.sleep(5)
        shards.append(number)
    return shards


def serve(path):
    say("role", role="process serve")

    async def run():
        shards = await load()
        server = await asyncio.start_unix_server(lambda _, writer: writer.write(bytes(shards)), path)
        await server.serve_forever()

    asyncio.run(run())


def reached(path):
    with socket.socket(socket.AF_UNIX) as link:
        return link.connect_ex(path) == 0


def main():
    say("root")
    say("role", role="main")
    mp.Process(target=serve, args=("server",), daemon=True).start()
    say("settled")
    while not reached("server"):
        time.sleep(1)


if __name__ == "__main__":
    main()
