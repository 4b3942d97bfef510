import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import asyncio
import socket
import threading

JOBS, CHANGED = [], threading.Condition()


def accept(server):
    while True:
        client, _ = server.accept()
        with CHANGED:
            JOBS.append(client)
            CHANGED.notify()


def work():
    while True:
        with CHANGED:
            CHANGED.wait_for(lambda: JOBS)
            JOBS.pop().close()


async def main():
    await asyncio.Event().wait()


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=accept, args=(server,), daemon=True).start()
    threading.Thread(target=work, daemon=True).start()
    say("settled")
    asyncio.run(main())
