"""Workers ask every second for items until the handler of SIGTERM in main tells them to stop; main joins them."""

import json
import multiprocessing
import os
import queue
import signal


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def work(pages, stop):
    say("role", role="process work")
    while not stop.is_set():
        try:
            pages.get(timeout=1)
        except queue.Empty:
            continue


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    pages, stop = context.Queue(), context.Event()
    workers = [context.Process(target=work, args=(pages, stop)) for _ in range(3)]
    for worker in workers:
        worker.start()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    say("settled")
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
