import json
import os
import asyncio


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


async def heartbeat():
    while True:
        await asyncio.sleep(1)


async def convert():
    program = "import sys; sys.stdout.write('x' * 1000000)"
    process = await asyncio.create_subprocess_exec("/usr/bin/env", "python3", "-c", program, stdout=asyncio.subprocess.PIPE)
    say("settled")
    return await process.wait()  # CULPRIT


async def main():
    say("root")
    say("role", role="main")
    say("culprit")
    beat = asyncio.create_task(heartbeat())
    print(await convert())
    beat.cancel()


asyncio.run(main())
