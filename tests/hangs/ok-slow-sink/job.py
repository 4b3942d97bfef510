import json
import os
import asyncio
import sys
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def sink():
    say("role", role="subprocess job.py")
    while data := os.read(0, 4096):
        time.sleep(2)


async def main():
    say("root")
    say("role", role="main")
    process = await asyncio.create_subprocess_exec(sys.executable, "job.py", "sink", stdin=asyncio.subprocess.PIPE)
    say("settled")
    for _ in range(10000):
        process.stdin.write(b"x" * 100000)
        await process.stdin.drain()


sink() if sys.argv[1:] else asyncio.run(main())
