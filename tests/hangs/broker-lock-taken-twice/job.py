import json
import multiprocessing as mp
import os
import threading
from collections import deque
from multiprocessing.connection import wait


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def broker(ends):
    """Grants each named lock to one after the other."""
    say("role", role="process broker")
    queues = {}
    while ends:
        for end in wait(ends):
            try:
                verb, name = end.recv()
            except EOFError:
                ends.remove(end)
                continue
            queue = queues.setdefault(name, deque())
            if verb == "take":
                queue.append(end)
            else:
                queue.popleft()
            if queue and (verb == "give" or len(queue) == 1):
                queue[0].send(name)


class Locks:
    """A worker's way to the broker: one thread receives what it grants."""

    def __init__(self, end):
        self.end = end
        self.granted = {}
        threading.Thread(target=self._receive, name="grants", daemon=True).start()

    def _receive(self):
        while True:
            self.granted[self.end.recv()].set()


class Named:
    def __init__(self, name, locks):
        self.name = name
        self.locks = locks

    def __enter__(self):
        granted = self.locks.granted[self.name] = threading.Event()
        self.locks.end.send(("take", self.name))
        granted.wait()

    def __exit__(self, *_):
        self.locks.end.send(("give", self.name))


def compact(locks):
    with Named("index", locks):  # CULPRIT
        return sorted(range(100))


def work(number, end):
    locks = Locks(end)
    say("role", role=f"process indexer {number}")
    for turn in range(200):
        with Named("index", locks):
            if number == 1 and turn == 50:
                say("culprit", thread="MainThread")
                say("settled")
                compact(locks)
    say("waiter")


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    pairs = [mp.Pipe() for _ in range(2)]
    mp.Process(target=broker, args=([ours for ours, _ in pairs],), name="broker", daemon=True).start()
    indexers = [mp.Process(target=work, args=(number, end), name=f"indexer-{number}") for number, (_, end) in enumerate(pairs)]
    for one in indexers:
        one.start()
    for one in indexers:
        one.join()
