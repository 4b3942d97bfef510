import json
import os
import collections
import multiprocessing as mp
import time


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def settle(n):
    """Whoever is the last of n parties to report also reports that all are in place."""
    with open(os.environ.get("CORPUS_TRUTH", os.devnull)) as f:
        if sum('"waiter"' in x or '"culprit"' in x for x in f) >= n:
            say("settled")


CTX = mp.get_context("fork")


class Stage:
    """A step of the job with a process for each part."""

    def __init__(self, name):
        self.name, self.procs = name, []

    def spawn(self, fn, *args):
        p = CTX.Process(target=fn, args=args, name=f"{self.name}-{len(self.procs)}")
        p.start()
        self.procs.append(p)

    def complete(self, patience=1.0):
        while self.alive():
            for p in self.alive():
                p.join(patience)  # CULPRIT

    def alive(self):
        return [p for p in self.procs if p.exitcode is None]


class WordCount:
    def __init__(self, words):
        self.words = words

    def pairs(self, n):
        for i in range(n):
            yield self.words[i % len(self.words)] + f"-{i}", 1


def map_part(part, out):
    say("role", role=f"process mapper-{part}")
    for pair in WordCount(["oak", "elm", "ash"]).pairs(20_000):
        out.put(pair)
    say("waiter")
    settle(4)


def reduce_all(src, go, done):
    say("role", role="process reducer-0")
    say("waiter")
    settle(4)
    go.wait()
    counts = collections.Counter()
    while not src.empty():
        word, n = src.get()
        counts[word.split("-")[0]] += n
    done.put(dict(counts))


def main():
    say("root")
    say("role", role="main")
    pairs, done, go = CTX.Queue(), CTX.SimpleQueue(), CTX.Event()
    mappers, reducers = Stage("mapper"), Stage("reducer")
    reducers.spawn(reduce_all, pairs, go, done)
    for part in range(2):
        mappers.spawn(map_part, part, pairs)
    time.sleep(0.5)
    say("culprit", thread="MainThread")
    settle(4)
    mappers.complete()
    go.set()
    print(done.get())
    reducers.complete()


if __name__ == "__main__":
    main()
