import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import asyncio
import multiprocessing as mp

CTX = mp.get_context("fork")


def square(connection):
    while True:
        connection.send(connection.recv() ** 2)


async def main():
    await asyncio.Event().wait()


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    mine, theirs = CTX.Pipe()
    CTX.Process(target=square, args=(theirs,), daemon=True).start()
    mine.send(3)
    print(mine.recv())
    say("settled")
    asyncio.run(main())
