import asyncio
import json
import os
import subprocess
import sys


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


LOCK = asyncio.Lock()
PRINTER = """
import sys, time
for line in sys.stdin:
    time.sleep(9)
    print("printed", line, end="", flush=True)
"""


async def print_label(printer, number):
    await LOCK.acquire()
    try:
        printer.stdin.write(b"label %d\n" % number)
        return await printer.stdout.readline()
    finally:
        LOCK.release()


async def main():
    say("root")
    say("role", role="main")
    printer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PRINTER, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    jobs = [asyncio.create_task(print_label(printer, number)) for number in range(20)]
    say("settled")
    while not all(job.done() for job in jobs):
        await asyncio.sleep(0.5)


asyncio.run(main())
