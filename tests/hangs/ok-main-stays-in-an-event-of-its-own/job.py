"""Main, without a handler of a signal, waits for an event that nobody else has while a worker waits for tasks."""

import json
import multiprocessing
import os
import threading


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def work(pages):
    say("role", role="process work")
    while True:
        pages.get()


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    pages = context.Queue()
    context.Process(target=work, args=(pages,), daemon=True).start()
    say("settled")
    threading.Event().wait()


if __name__ == "__main__":
    main()
