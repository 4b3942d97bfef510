"""A child does not come back from making an item, for which its parent waits at a queue."""

import multiprocessing
import sys
import time

from ready import say


def produce(queue):
    queue.put(0)
    say(child=multiprocessing.current_process().pid)
    time.sleep(1000)  # STUCK
    queue.put(1)


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    queue = context.Queue()
    child = context.Process(target=produce, args=(queue,))
    child.start()
    queue.get()
    queue.get()
