import concurrent.futures
import json
import os
import threading
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)

SLOTS = threading.BoundedSemaphore(3)


def fetch(n):
    time.sleep(8)
    return n


def submit(pool, n):
    SLOTS.acquire()
    try:
        future = pool.submit(fetch, n)
    except RuntimeError:
        SLOTS.release()
        raise
    future.add_done_callback(lambda _: SLOTS.release())


def main():
    say("root")
    say("role", role="main")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        say("settled")
        for n in range(10_000):
            submit(pool, n)


main()
