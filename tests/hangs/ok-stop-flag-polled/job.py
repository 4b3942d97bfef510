"""A consumer of tasks with nothing to do: all its processes wait in the pipe of its stop flag, and look for tasks between."""
import json
import multiprocessing as mp
import os
import select
import sqlite3
import tempfile
import time


def note(event, **more):
    truth = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(truth, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(truth)


class Flag:
    def __init__(self):
        self.reads, self.writes = os.pipe()

    def wait(self, seconds):
        poller = select.poll()
        poller.register(self.reads, select.POLLIN)
        return bool(poller.poll(seconds * 1000))


class Worker:
    def __init__(self, flag, path):
        self.flag, self.path, self.delay = flag, path, 0.1

    def task(self):
        with sqlite3.connect(self.path) as tasks:
            return tasks.execute("select name from tasks limit 1").fetchone()

    def run(self):
        note("role", role="process worker")
        while not self.flag.wait(self.delay):
            if self.task() is None:
                self.delay = min(self.delay * 1.15, 10.0)
                note("progress")


def main():
    note("root")
    note("role", role="main")
    flag, path = Flag(), os.path.join(tempfile.mkdtemp(), "tasks.db")
    with sqlite3.connect(path) as tasks:
        tasks.execute("create table tasks (name text)")
    workers = [mp.Process(target=Worker(flag, path).run) for _ in range(2)]
    for worker in workers:
        worker.start()
    time.sleep(6)
    note("settled")
    while not flag.wait(10.0):
        if not all(worker.is_alive() for worker in workers):
            break


if __name__ == "__main__":
    main()
