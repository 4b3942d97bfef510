import json
import multiprocessing
import os
import queue
import threading
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


class Cache:
    """Reads ahead in a thread, and puts into a bounded queue while it has the lock of its statistics."""

    def __init__(self):
        self.lock = threading.Lock()
        self.ready = queue.Queue(2)
        self.made = 0
        threading.Thread(target=self.fill, name="fill", daemon=True).start()

    def fill(self):
        while True:
            with self.lock:
                self.made += 1
                self.ready.put(self.made)  # CULPRIT

    def take(self):
        with self.lock:  # CULPRIT
            made = self.made
        return made, self.ready.get()


def beat():
    while True:
        print("alive", flush=True)
        time.sleep(1)


def stage(requests):
    say("role", role="process stage")
    say("culprit", thread="MainThread")
    say("culprit", thread="fill")
    threading.Thread(target=beat, name="beat", daemon=True).start()
    cache = Cache()
    while requests.recv():
        requests.send(cache.take())


def batch(requests):
    requests.send("next")
    late = 0
    while not requests.poll(1.0):
        late += 1
        print(f"batch is {late} s late", flush=True)
        if late == 1:
            say("settled")
    return requests.recv()


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    ours, theirs = multiprocessing.Pipe()
    multiprocessing.get_context("fork").Process(target=stage, args=(theirs,), name="stage", daemon=True).start()
    theirs.close()
    while True:
        print(batch(ours))


if __name__ == "__main__":
    main()
