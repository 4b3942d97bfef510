"""The initializer of a pool waits for a licence, gets none and ends the worker: the pool starts new ones for ever."""

import json
import multiprocessing
import os
import threading
import time

LICENCE = "/nonexistent/licence"


def say(**event: object) -> None:
    line = json.dumps(event) + "\n"
    with open(os.environ["CORPUS_TRUTH"], "a") as truth:
        truth.write(line)


def get_licence(path: str) -> None:
    for _ in range(3):
        if os.path.exists(path):
            return
        time.sleep(0.3)
    raise SystemExit(3)


def simulate(seed: int) -> float:
    return sum((seed * number) % 97 for number in range(10_000)) / 97


def settled() -> None:
    time.sleep(5)
    say(event="settled")


def main() -> None:
    say(event="root", pid=os.getpid())
    say(event="role", pid=os.getpid(), role="main")
    say(event="culprit", pid=os.getpid(), thread="MainThread")
    threading.Thread(target=settled, daemon=True).start()
    with multiprocessing.get_context("fork").Pool(3, get_licence, (LICENCE,)) as pool:
        results = pool.map(simulate, range(50))  # CULPRIT
    print(max(results))


if __name__ == "__main__":
    main()
