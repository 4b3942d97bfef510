import json
import os
from concurrent.futures import ProcessPoolExecutor
import multiprocessing as mp


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def collatz(n):
    """How many steps it takes to 1."""
    if n == 0:
        say("role", role="pool worker x")
        say("culprit", thread="MainThread")
        say("settled")
    steps = 0


    while n != 1:  # CULPRIT
        n = n // 2 if n % 2 == 0 else 3 * n + 1  # CULPRIT
        steps += 1  # CULPRIT
    return steps


def main():
    with ProcessPoolExecutor(2, mp_context=mp.get_context("fork")) as pool:
        print(list(pool.map(collatz, [0, 6, 27])))


say("root"), say("role", role="main"), main()
