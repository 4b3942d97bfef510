"""The main thread takes items of a queue, as its children do, and a thread beside it puts one now and then."""

import json
import multiprocessing as mp
import os
import threading
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def consume(jobs):
    while True:
        print(jobs.get(), flush=True)


def child(jobs):
    say("role", role="process consumer")
    time.sleep(1)
    consume(jobs)


def feed(jobs):
    say("settled")
    while True:
        time.sleep(20)
        jobs.put(time.time())


def main():
    say("root")
    say("role", role="main")
    context = mp.get_context("fork")
    jobs = context.Queue()
    for _ in range(2):
        context.Process(target=child, args=(jobs,), daemon=True).start()
    threading.Thread(target=feed, args=(jobs,), daemon=True).start()
    consume(jobs)


if __name__ == "__main__":
    main()
