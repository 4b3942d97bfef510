"""A parent waits for the end of a child whose queue it has not emptied; a pipe holds less than what is in it."""

import multiprocessing
import sys

from ready import say


def produce(queue):
    queue.put(bytes(2_000_000))
    say(child=multiprocessing.current_process().pid)


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    queue = context.Queue()
    child = context.Process(target=produce, args=(queue,))
    child.start()
    child.join()  # STUCK
    queue.get()
