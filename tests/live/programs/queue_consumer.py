"""A child waits for an item that its parent never puts, because it waits for the child."""

import multiprocessing

from ready import say


def consume(queue):
    say(child=multiprocessing.current_process().pid)
    queue.get()


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=consume, args=(queue,))
    child.start()
    child.join()
