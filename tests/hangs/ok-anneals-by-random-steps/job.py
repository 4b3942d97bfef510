"""Pool workers look for a better order by random swaps, and find one now and then."""

import json
import multiprocessing
import os
import random


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def length(order, places):
    return sum(abs(places[a] - places[b]) for a, b in zip(order, order[1:]))


def improve(seed):
    say("role", role=f"pool worker {seed}")
    random.seed(seed)
    places = [random.random() for _ in range(600)]
    order = list(range(600))
    best = length(order, places)
    while best > 1.0:
        a, b = random.randrange(600), random.randrange(600)
        order[a], order[b] = order[b], order[a]
        now = length(order, places)
        if now < best:
            best = now
        else:
            order[a], order[b] = order[b], order[a]
    return best


def main():
    say("root")
    say("role", role="main")
    say("settled")
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(improve, range(2)), flush=True)


if __name__ == "__main__":
    main()
