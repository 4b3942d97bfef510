"""A scheduler waits in an event until its next job is due; its pool is idle meanwhile."""
import json
import os
import sys
import tempfile


def note(event, **more):
    truth = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(truth, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(truth)


def rotate():
    note("progress")


LIBRARY = """
import threading
import time
from concurrent.futures import ThreadPoolExecutor


class Scheduler:
    def __init__(self):
        self.changed, self.pool, self.due = threading.Event(), ThreadPoolExecutor(1), []

    def add(self, job, first, seconds):
        self.due.append((time.monotonic() + first, seconds, job))
        self.changed.set()

    def run(self):
        self.loop()

    def loop(self):
        while True:
            self.due.sort(key=lambda row: row[0])
            moment, seconds, job = self.due[0]
            self.changed.wait(max(0.0, moment - time.monotonic()))
            self.changed.clear()
            if time.monotonic() >= moment:
                self.due[0] = (moment + seconds, seconds, job)
                self.pool.submit(job)
"""


def main():
    note("root")
    note("role", role="main")
    folder = os.path.join(tempfile.mkdtemp(), "site-packages")
    os.makedirs(folder)
    with open(os.path.join(folder, "scheduling.py"), "w") as file:
        file.write(LIBRARY)
    sys.path.insert(0, folder)
    from scheduling import Scheduler

    scheduler = Scheduler()
    scheduler.pool.submit(rotate).result()
    scheduler.add(rotate, 5.0, 45.0)
    note("settled")
    scheduler.run()


if __name__ == "__main__":
    main()
