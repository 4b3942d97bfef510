"""A pool of three works on one list of tasks after the other."""

import multiprocessing

from orders import DATA, compute, ordered, say


def work(task):
    if ordered("spins"):
        while True:  # WRONG spins
            pass
    with open(DATA) as file:  # WRONG fifo
        return task + len(file.read()) + compute(3000)


def main():
    with multiprocessing.get_context("fork").Pool(3) as pool:
        workers = [process.pid for process in pool._pool]
        rounds = 0
        while True:
            pool.map(work, range(60), chunksize=1)
            rounds += 1
            if rounds == 5:
                say(worker0=workers[0], worker1=workers[1])


if __name__ == "__main__":
    main()
