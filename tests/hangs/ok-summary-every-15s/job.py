"""A monitor samples the memory of its parent every second and sends a summary every 15 seconds, by the clock."""

import json
import multiprocessing as mp
import os
import time


def say(event, **more):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(fd)


def monitor(pid, out, stop):
    say("role", role="process monitor")
    began, most = time.monotonic(), 0
    while not stop.wait(1.0):
        with open(f"/proc/{pid}/statm") as file:
            most = max(most, int(file.read().split()[1]))
        if time.monotonic() - began > 15:
            out.send(most)
            say("progress")
            began = time.monotonic()


def main():
    say("root")
    say("role", role="main")
    ctx = mp.get_context("fork")
    summaries, out = ctx.Pipe(duplex=False)
    stop = ctx.Event()
    process = ctx.Process(target=monitor, args=(os.getpid(), out, stop), daemon=True)
    process.start()
    out.close()
    say("settled")
    for _ in range(20):
        print(summaries.recv(), flush=True)
    stop.set()


if __name__ == "__main__":
    main()
