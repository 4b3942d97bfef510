"""A pipeline: one process puts tasks into a bounded queue, two work on them, the main program takes the results."""

import multiprocessing
import time

from orders import DATA, compute, ordered, say


def feed(tasks):
    number = 0
    while True:
        if ordered("silent"):
            time.sleep(1 << 20)  # WRONG silent
        tasks.put(number)
        number += compute(500) % 2 + 1


def work(tasks, results, lock):
    while True:
        task = tasks.get()
        with lock:
            if ordered("keeps"):
                time.sleep(1 << 20)  # WRONG keeps
            compute(2000)
        with open(DATA) as file:
            results.put(task + len(file.read()))


def main():
    fork = multiprocessing.get_context("fork")
    tasks, results, lock = fork.Queue(8), fork.Queue(8), fork.Lock()
    feeder = fork.Process(target=feed, args=(tasks,), name="feeder", daemon=True)
    workers = [fork.Process(target=work, args=(tasks, results, lock), daemon=True) for _ in range(2)]
    for process in (feeder, *workers):
        process.start()
    taken = 0
    while True:
        if ordered("unread"):
            time.sleep(1 << 20)  # WRONG unread
        results.get()
        taken += 1
        if taken == 50:
            say(feeder=feeder.pid)


if __name__ == "__main__":
    main()
