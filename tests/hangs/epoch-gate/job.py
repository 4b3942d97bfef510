import json
import multiprocessing as mp
import os
import random
import time

TRUTH = os.environ.get("CORPUS_TRUTH", os.devnull)


def say(event, **kw):
    fd = os.open(TRUTH, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps(dict({"event": event, "pid": os.getpid()}, **kw)) + "\n").encode())
    os.close(fd)


def simulate(k, gate, scores):
    say("role", role=f"process sim-{k}")
    say("waiter")
    rnd = random.Random(k)
    state = rnd.random()
    for epoch in range(1000):
        for _ in range(2000):
            state = 3.7 * state * (1 - state)
        scores[k] = state / (1 + epoch)
        gate.wait()
        gate.wait()


def converged(history):
    return len(history) > 6 and abs(history[-1] - history[-2]) < 0.5


def watch(gate, scores):
    history = []
    while True:
        gate.wait()
        history.append(sum(scores))
        gate.wait()
        if converged(history):
            return history


def main():
    say("root")
    say("role", role="main")
    ctx = mp.get_context("spawn")
    gate, scores = ctx.Barrier(4), ctx.Array("d", 3)
    sims = [ctx.Process(target=simulate, args=(k, gate, scores), name=f"sim-{k}") for k in range(3)]
    for p in sims:
        p.start()
    history = watch(gate, scores)
    print("converged after", len(history))
    say("culprit", thread="MainThread")
    time.sleep(0.5)
    say("settled")
    for p in sims:
        p.join()  # CULPRIT


if __name__ == "__main__":
    main()
