import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import asyncio
import multiprocessing as mp
import subprocess

CTX = mp.get_context("fork")
READY = CTX.Value("i", 0)


def fetch():
    for number in range(1000):
        subprocess.run(["sleep", "5"])
        READY.value = number + 1


async def main():
    CTX.Process(target=fetch, daemon=True).start()
    say("settled")
    for number in range(1000):
        while READY.value <= number:
            await asyncio.sleep(0.3)


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    asyncio.run(main())
