import asyncio
import json
import os
import sys


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def convert():
    say("role", role="process convert")
    say("settled")
    for _ in range(100):

        os.write(1, b"frame of a film\n" * 4096)


async def converted(process):
    say("culprit", thread="MainThread")
    return await process.wait()  # CULPRIT


def main():
    async def run():
        command = (sys.executable, "job.py", "--convert")
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        print(await converted(process))

    asyncio.run(run())  # CULPRIT


say("root") or say("role", role="main") if "--convert" not in sys.argv else None
convert() if "--convert" in sys.argv else main()
