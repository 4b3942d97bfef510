import json
import multiprocessing as mp
import os
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)

CTX = mp.get_context("fork")
SHARD_MB = [2, 3, 40]


def load(mb):
    time.sleep(mb / 20)
    return [k % 251 for k in range(mb * 100)]


def worker(k, go, done):
    say("role", role=f"process worker-{k}")
    shard = load(SHARD_MB[k])
    if k == 2:
        say("culprit", thread="MainThread")
        say("settled")
    else:
        say("waiter")
    epoch = 0
    while True:
        go.wait()  # CULPRIT
        epoch += 1
        done.put((k, epoch, sum(shard) / len(shard)))


class Coordinator:
    def __init__(self, workers):
        self.go, self.done = CTX.Event(), CTX.SimpleQueue()
        self.workers = [CTX.Process(target=worker, args=(k, self.go, self.done), daemon=True) for k in range(workers)]
        for w in self.workers:
            w.start()

    def epoch(self):
        self.go.set()
        self.go.clear()
        means = {}
        while len(means) < len(self.workers):
            k, epoch, mean = self.done.get()  # CULPRIT
            means[k] = mean
        return means


def main():
    say("root")
    say("role", role="main")
    c = Coordinator(len(SHARD_MB))
    time.sleep(1.2)                 # they need a moment to start
    say("culprit", thread="MainThread")
    for e in range(20):
        print(e, c.epoch())


if __name__ == "__main__":
    main()
