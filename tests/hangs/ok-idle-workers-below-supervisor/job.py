"""Workers have done all the work there was, and wait for more; main waits for SIGTERM, as a service does."""

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

def shrink(pages, small):
    say("role", role="process shrink")
    while True:
        small.put(pages.get() // 2)


def store(small, done):
    say("role", role="process store")
    while True:
        done.put(small.get())


def tell(done):
    for count in range(8):
        done.get()
        say("progress")
    say("settled")
    while True:
        done.get()


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    pages, small, done = context.Queue(), context.Queue(), context.Queue()
    for _ in range(3):
        context.Process(target=shrink, args=(pages, small), daemon=True).start()
    context.Process(target=store, args=(small, done), daemon=True).start()
    threading.Thread(target=tell, args=(done,), daemon=True).start()
    for page in range(8):
        pages.put(page)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    stop.wait()


if __name__ == "__main__":
    main()
