import json
import multiprocessing as mp
import os
import random
import time

def say(event, pid=0, **kw):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def at(kind, n, **kw):
    """Says where this process ends up; the last of n also says that the state is settled."""
    say(kind, **kw)
    with open(os.environ.get("CORPUS_TRUTH", os.devnull)) as f:
        if sum('"waiter"' in x or '"culprit"' in x for x in f) >= n:
            say("settled")

TRIALS = 3
N = TRIALS + 1


class Scheduler:
    """Successive halving: all trials finish a rung, then the worst is replaced by a copy of the best."""

    def __init__(self, ctx):
        self.ctx, self.rung = ctx, ctx.Barrier(TRIALS + 1)
        self.results = ctx.Queue()
        self.conns, self.procs = [], []

    def start(self):
        for k in range(TRIALS):
            here, there = self.ctx.Pipe()
            p = self.ctx.Process(target=trial, args=(k, there, self.rung, self.results), name=f"trial-{k}")
            p.start()
            self.conns.append(here)
            self.procs.append(p)

    def collect(self, rung):
        if rung == 2:
            at("culprit", N, thread="MainThread")
        return sorted(self.results.get() for _ in range(TRIALS))  # CULPRIT

    def run(self, rungs):
        for r in range(rungs):
            if r < 2:  # warm-up rungs: everybody starts at the same time for the timings
                self.rung.wait()
            board = self.collect(r)
            print(f"rung {r}: best {board[0][0]:.3f} (trial {board[0][1]})", flush=True)
            for c in self.conns:
                c.send(board[0][2])
        for p in self.procs:
            p.join()


def trial(k, conn, rung, results):
    say("role", role=f"process trial {k}")
    rng, lr = random.Random(k), 10 ** -(k + 1)
    for r in range(5):
        if r == 2:
            at("waiter", N)
        rung.wait()
        loss = 1.0
        for _ in range(20):
            loss *= 1 - lr * rng.random()
            time.sleep(0.005)
        results.put((loss, k, lr))
        lr = conn.recv() * (1 + 0.1 * rng.random())


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    s = Scheduler(mp.get_context("spawn"))
    s.start()
    s.run(5)
