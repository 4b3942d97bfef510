"""A worker is told to end while it blocks SIGTERM, as its parent did when it started it; the parent joins it."""

import json
import multiprocessing
import os
import signal


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def clean(pages, cleaned):
    say("role", role="process clean")
    while True:
        cleaned.put(pages.recv())  # CULPRIT


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    cleaned = context.Queue()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    pipes = [context.Pipe() for _ in range(3)]
    workers = [context.Process(target=clean, args=(end, cleaned)) for _, end in pipes]
    for worker in workers:
        worker.start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    for page, (pipe, _) in enumerate(pipes * 10):
        pipe.send(page)
    print(sorted(cleaned.get() for _ in pipes * 10))
    say("culprit", workers[0].pid)
    say("settled")
    for worker in workers:
        worker.terminate()
        worker.join()


if __name__ == "__main__":
    main()
