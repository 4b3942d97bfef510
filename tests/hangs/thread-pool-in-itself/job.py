import json
import multiprocessing as mp
import os
import threading
import time
from multiprocessing.pool import ThreadPool

_POOLS = {}


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def threads(count):
    """One pool of that size in each process."""
    return _POOLS.setdefault((os.getpid(), count), ThreadPool(count))


def pixel(x):
    return x * x


def row(y):
    time.sleep(0.1)
    say("culprit", thread=threading.current_thread().name)
    say("settled")
    return sum(threads(2).map(pixel, range(5)))  # CULPRIT


def image(n):
    say("role", role=f"pool worker {mp.current_process()._identity[0] - 1}")
    return sum(threads(2).map(row, range(4)))


def main():
    say("root")
    say("role", role="main")
    with mp.get_context("spawn").Pool(2) as pool:
        print(sum(pool.map(image, range(2))))


if __name__ == "__main__":
    main()
