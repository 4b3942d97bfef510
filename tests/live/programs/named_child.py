"""A spawned child of a subclass of Process, which has a name and its own `run`, sleeps, and its parent waits for it."""

import multiprocessing
import time

from ready import say


class Gauge(multiprocessing.get_context("spawn").Process):
    def run(self):
        say(child=self.pid)
        time.sleep(1000)  # STUCK


if __name__ == "__main__":
    child = Gauge(name="pressure gauge")
    child.start()
    child.join()
