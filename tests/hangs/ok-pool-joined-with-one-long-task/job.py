"""A pool has twelve tasks, one of which takes long; the pool is closed and joined."""
import json
import multiprocessing
import os
import time


def truth(event, **more):
    line = json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def search(task):
    start, seconds = task
    until, best = time.monotonic() + seconds, 0
    number = start
    while time.monotonic() < until:
        best = max(best, pow(number, 65537, 1000003))
        number += 12
    return best


if __name__ == "__main__":
    truth("root")
    truth("role", role="main")
    pool = multiprocessing.get_context("fork").Pool(4)
    result = pool.map_async(search, [(number, 120 if number == 3 else 0.2) for number in range(12)], chunksize=1)
    pool.close()
    truth("settled")
    pool.join()
    print(result.get())
