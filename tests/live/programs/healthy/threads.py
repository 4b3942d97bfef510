"""A thread prefetches, another one counts, and the main thread has processes of an executor work on what comes."""

import concurrent.futures
import multiprocessing
import queue
import threading
import time

from orders import DATA, compute, ordered, say

LOCK = threading.Lock()
COUNTS = {"fetched": 0}


def work(task):
    if ordered("spins"):
        while True: pass  # WRONG spins  # noqa: E701  # fmt: skip
    with open(DATA) as file:  # WRONG fifo
        return task + len(file.read()) + compute(4000)


def fetch(fetched):
    while True:
        with LOCK:
            if ordered("keeps"):
                time.sleep(1 << 20)  # WRONG keeps
            COUNTS["fetched"] += 1
        if ordered("silent"):
            time.sleep(1 << 20)  # WRONG silent
        fetched.put(COUNTS["fetched"] + compute(500))


def count():
    while True:
        time.sleep(0.05)
        with LOCK:
            COUNTS["seen"] = COUNTS["fetched"]


def main():
    fetched, done = queue.Queue(4), 0
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as executor:
        list(executor.map(abs, range(8)))
        for target in (count, lambda: fetch(fetched)):
            threading.Thread(target=target, daemon=True).start()
        while True:
            executor.submit(work, fetched.get()).result()
            done += 1
            if done == 50:
                say(worker0=min(executor._processes), worker1=max(executor._processes))


if __name__ == "__main__":
    main()
