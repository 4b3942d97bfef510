"""A child that was started in one of multiprocessing's ways sleeps, and its parent waits for it."""

import multiprocessing
import sys
import time

from ready import say


def nap():
    say(child=multiprocessing.current_process().pid)
    time.sleep(1000)  # STUCK


if __name__ == "__main__":
    child = multiprocessing.get_context(sys.argv[1]).Process(target=nap)
    child.start()
    child.join()
