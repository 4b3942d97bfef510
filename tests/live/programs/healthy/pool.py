"""A pool of three works on one list of tasks after the other."""

import multiprocessing
import os
import signal

from orders import DATA, compute, ordered, say


def work(task):
    if ordered("stops in a task"):
        os.kill(os.getpid(), signal.SIGSTOP)  # WRONG stops in a task
    if ordered("spins"):
        while True: pass  # WRONG spins  # noqa: E701  # fmt: skip
    with open(DATA) as file:  # WRONG fifo
        return task + len(file.read()) + compute(3000)


def main():
    with multiprocessing.get_context("fork").Pool(3) as pool:
        rounds = 0
        while True:
            pool.map(work, range(60), chunksize=1)
            rounds += 1
            if rounds == 5:
                say(at_work=True)


if __name__ == "__main__":
    main()
