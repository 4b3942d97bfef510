"""A fork while the queue is in use, and a fork of the fork; each puts one item."""

import multiprocessing
import os

from common import say, wait_for_word


def main():
    queue, done = multiprocessing.SimpleQueue(), multiprocessing.SimpleQueue()
    queue.put("parent")
    queue.get()
    hears, tells = os.pipe()
    child = os.fork()
    if child == 0:
        grandchild = os.fork()
        queue.put(os.getpid())
        os.write(tells, b".")
        done.get()
        if grandchild:
            os.waitpid(grandchild, 0)
        os._exit(0)
    pids = [queue.get() for _ in range(2)]
    for _ in pids:
        os.read(hears, 1)
    say(children=pids, parent=os.getpid())
    wait_for_word()
    for _ in pids:
        done.put(None)
    os.waitpid(child, 0)
    say(ended=True)


if __name__ == "__main__":
    main()
