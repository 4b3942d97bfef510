"""Main has put five items, handles SIGTERM, and joins a collector that waits for six results."""

import json
import multiprocessing
import os
import signal
import sys


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def work(pages, small):
    say("role", role="process work")
    while True:
        small.put(pages.get() + 1)


def collect(small, count):
    say("role", role="process collect")
    for number in range(count):
        if number == count - 1:
            say("culprit")
            say("waiter")
            say("settled")
        small.get()  # CULPRIT


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    context = multiprocessing.get_context("fork")
    pages, small = context.Queue(), context.Queue()
    for _ in range(2):
        context.Process(target=work, args=(pages, small), daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    for page in range(5):
        pages.put(page)
    collector = context.Process(target=collect, args=(small, 6))
    collector.start()
    collector.join()


if __name__ == "__main__":
    main()
