"""Threads of a process whose main function has returned answer main, and take turns with one that writes."""

import json
import multiprocessing
import os
import threading
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

class SharedLock:
    """Many readers or one writer; one that waits to write keeps new readers out."""

    def __init__(self):
        self.changed = threading.Condition()
        self.readers, self.writers = 0, 0

    def read(self):
        with self.changed:
            while self.writers:
                self.changed.wait()
            self.readers += 1

    def leave(self):
        with self.changed:
            self.readers -= 1
            self.changed.notify_all()

    def write(self):
        with self.changed:
            self.writers += 1
            while self.readers:
                self.changed.wait()

    def written(self):
        with self.changed:
            self.writers -= 1
            self.changed.notify_all()


def answer(lock, requests, prices):
    while True:
        requests.recv()
        lock.read()
        time.sleep(0.05)
        prices.send(42)
        lock.leave()


def refresh(lock):
    while True:
        time.sleep(0.02)
        lock.write()
        lock.written()


def keep(requests, prices):
    say("role", role="process keep")
    lock = SharedLock()
    threading.Thread(target=answer, args=(lock, requests, prices), name="answer").start()
    threading.Thread(target=refresh, args=(lock,), name="refresh").start()


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    (asked, asks), (answers, answered) = context.Pipe(duplex=False), context.Pipe(duplex=False)
    context.Process(target=keep, args=(asked, answered), daemon=True).start()
    say("settled")
    while True:
        asks.send("apples")
        print(answers.recv(), flush=True)
        time.sleep(8)
        say("progress")


if __name__ == "__main__":
    main()
