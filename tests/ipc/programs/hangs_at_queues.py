"""Jobs that hang at a queue: `hangs_at_queues.py undrained`, `readers`."""

import json
import multiprocessing
import os
import sys
import time


def say(queue, **facts):
    print(json.dumps({"queue": f"pipe:{os.fstat(queue._reader.fileno()).st_ino}", **facts}), flush=True)


def fill(queue, begun):
    """More than the pipe takes: the feeder thread waits for a reader, and the process for its feeder thread."""
    queue.put(bytes(1 << 20))  # FILL
    begun.send(os.getpid())


def undrained():
    queue = multiprocessing.Queue()
    heard, begun = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.Process(target=fill, args=(queue, begun))
    child.start()
    say(queue, child=heard.recv())
    time.sleep(1000)  # REST
    child.join()


def take(queue):
    queue.get()  # TAKE


def readers():
    queue = multiprocessing.Queue()
    children = [multiprocessing.Process(target=take, args=(queue,)) for _ in range(2)]
    for child in children:
        child.start()
    say(queue, children=[child.pid for child in children])
    for child in children:
        child.join()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
