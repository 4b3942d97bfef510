"""A process that becomes another program (execve), with the same pid and start time, and goes on with queues."""

import multiprocessing
import os
import sys

from common import say, wait_for_word


def main():
    queue = multiprocessing.Queue()
    for _ in range(3 if len(sys.argv) == 1 else 5):
        queue.put(0)
        queue.get()
    say(items=queue is not None, pid=os.getpid())
    wait_for_word()
    if len(sys.argv) == 1:
        queue.close()
        queue.join_thread()
        os.execv(sys.executable, [sys.executable, *sys.argv, "again"])


if __name__ == "__main__":
    main()
