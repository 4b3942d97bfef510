"""Two workers wait for items of each other, while main waits for SIGTERM."""

import json
import multiprocessing
import os
import signal
import threading


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def play(name, mine, theirs, rounds):
    say("role", role=f"process {name}")
    for _ in range(rounds):
        theirs.put(name)
        mine.get()
    say("culprit")
    say("waiter")
    say("settled")
    print(mine.get())  # CULPRIT


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    context = multiprocessing.get_context("spawn")
    left, right = context.Queue(), context.Queue()
    context.Process(target=play, args=("left", left, right, 3), name="left").start()
    context.Process(target=play, args=("right", right, left, 3), name="right").start()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    stop.wait()


if __name__ == "__main__":
    main()
