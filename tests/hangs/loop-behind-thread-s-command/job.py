import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import asyncio
import subprocess
import threading


def convert(loop, done):
    say("culprit", thread="convert")
    tool = subprocess.Popen(["sleep", "100000"])
    say("culprit", pid=tool.pid, thread="MainThread")
    say("settled")
    tool.wait()  # CULPRIT
    loop.call_soon_threadsafe(done.set)


async def main():
    done = asyncio.Event()
    threading.Thread(target=convert, args=(asyncio.get_running_loop(), done), name="convert").start()
    await done.wait()


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    asyncio.run(main())
