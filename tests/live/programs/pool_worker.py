"""A pool's worker does not come back from its task."""

import multiprocessing
import time

from ready import say


def task(number):
    say(child=multiprocessing.current_process().pid)
    time.sleep(1000)  # STUCK
    return number


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.apply(task, (7,))
