"""Workers wait for the next round, which begins when somebody sends main SIGUSR1."""

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

def work(go, over):
    say("role", role="process work")
    while True:
        go.wait()
        over.wait()


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("spawn")
    go, over, asked = context.Event(), context.Event(), threading.Event()
    for _ in range(3):
        context.Process(target=work, args=(go, over), daemon=True).start()
    signal.signal(signal.SIGUSR1, lambda *_: asked.set())
    say("settled")
    while True:
        asked.wait()
        over.clear()
        go.set()
        asked.clear()
        go.clear()
        over.set()


if __name__ == "__main__":
    main()
