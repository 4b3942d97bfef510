"""A consumer waits in a manager's queue for an item its producer is too late with: after some, or before its first."""

import multiprocessing
import sys
import time

from ready import say


def produce(queue, items):
    for item in range(items):
        queue.put(item)
    say(child=multiprocessing.current_process().pid)
    time.sleep(1000)  # STUCK


def consume(queue):
    while queue.get() is not None:
        pass


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    with context.Manager() as manager:
        queue = manager.Queue()
        children = [
            context.Process(target=consume, args=(queue,)),
            context.Process(target=produce, args=(queue, int(sys.argv[1]))),
        ]
        for child in children:
            child.start()
        for child in children:
            child.join()
