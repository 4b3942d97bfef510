"""Workers wait for commands over pipes; the event loop of main waits for SIGTERM."""

import asyncio
import json
import multiprocessing
import os
import signal


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def serve(commands):
    say("role", role="process serve")
    while True:
        commands.send(commands.recv() * 2)


async def supervise():
    context = multiprocessing.get_context("fork")
    ends = []
    for _ in range(3):
        ours, theirs = context.Pipe()
        context.Process(target=serve, args=(theirs,), daemon=True).start()
        ends.append(ours)
    for end in ends:
        end.send(1)
        end.recv()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    say("settled")
    await stop.wait()


def main():
    say("root")
    say("role", role="main")
    asyncio.run(supervise())


if __name__ == "__main__":
    main()
