"""Two workers wait for messages of each other over a pipe, another one has no work, and main waits for SIGTERM."""

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

def ask(end):
    say("role", role="process ask")
    end.send(1)
    end.recv()
    say("culprit")
    say("waiter")
    end.recv()  # CULPRIT


def answer(end):
    say("role", role="process answer")
    end.recv()
    end.send(2)
    say("culprit")
    say("waiter")
    say("settled")
    end.recv()  # CULPRIT


def work(pages):
    say("role", role="process work")
    while True:
        pages.get()


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    context = multiprocessing.get_context("fork")
    left, right = context.Pipe()
    pages = context.Queue()
    for target, given in ((ask, left), (answer, right), (work, pages)):
        context.Process(target=target, args=(given,)).start()
    left.close()
    right.close()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    stop.wait()


if __name__ == "__main__":
    main()
