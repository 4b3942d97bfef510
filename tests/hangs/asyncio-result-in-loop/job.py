import asyncio
import json
import os
import threading


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


async def inner():
    return 42


async def outer(loop):
    """Waits for another coroutine as if it were a thread of its own."""
    say("culprit", thread="loop")
    future = asyncio.run_coroutine_threadsafe(inner(), loop)
    say("settled")


    return future.result()  # CULPRIT


def main(loop):
    threading.Thread(target=loop.run_forever, name="loop").start()
    print(asyncio.run_coroutine_threadsafe(outer(loop), loop).result())


say("root"), say("role", role="main"), main(asyncio.new_event_loop())
