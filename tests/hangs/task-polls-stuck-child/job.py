import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import asyncio
import multiprocessing as mp

CTX = mp.get_context("fork")
READY = CTX.Value("b", 0)


def warm_up():
    say("role", role="process warm_up")
    say("culprit", thread="MainThread")
    loaded = CTX.Event()
    say("settled")
    loaded.wait()  # CULPRIT
    READY.value = 1


async def main():
    CTX.Process(target=warm_up, daemon=True).start()
    while not READY.value:
        await asyncio.sleep(0.3)


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    asyncio.run(main())
