import logging
import multiprocessing as mp
import os
import tempfile
import time

from events import say
from qlog import Listener, setup_worker

log = logging.getLogger("feat")


def featurize(k, tasks, results, logq):
    say("role", role=f"process worker-{k}")
    say("waiter")
    setup_worker(logq)
    while (t := tasks.get()) is not None:
        v = sum(i * i for i in range(t % 1000))
        if t == 120:
            log.info("item %d took %d ms", t, "n/a")
        for part in range(4):
            log.info("item %d part %d", t, part)
        results.put((t, v))
        time.sleep(0.01)


class Job:
    def __init__(self, n=2):
        ctx = mp.get_context("fork")
        self.tasks, self.results, self.logq = ctx.Queue(), ctx.Queue(), ctx.Queue(maxsize=64)
        self.workers = [ctx.Process(target=featurize, args=(k, self.tasks, self.results, self.logq)) for k in range(n)]

    def run(self, items):
        for w in self.workers:
            w.start()
        Listener(self.logq, os.path.join(tempfile.gettempdir(), "run.log")).start()
        for i in range(items):
            self.tasks.put(i)
        table = {}
        while len(table) < items:
            k, v = self.results.get()  # CULPRIT
            table[k] = v
            if len(table) == 100:
                say("settled")
        return table


def main():
    say("root")
    say("role", role="main")
    say("culprit", thread="MainThread")
    print(len(Job().run(5000)))


if __name__ == "__main__":
    main()
