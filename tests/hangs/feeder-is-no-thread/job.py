"""Threads are replaced by tasks that run only while the program waits in its own library, as gevent does; a queue is not told."""
import json
import multiprocessing as mp
import os
import threading


def note(event, **more):
    truth = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(truth, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(truth)


class Cooperative(threading.Thread):
    waiting = []

    def start(self):
        self.waiting.append(self)


def square(tasks, results):
    note("role", role="process square")
    note("waiter")
    while (number := tasks.get()) is not None:
        results.put(number * number)


def main():
    note("root")
    note("role", role="main")
    tasks, results = mp.Queue(), mp.Queue()
    worker = mp.Process(target=square, args=(tasks, results))
    worker.start()
    threading.Thread = Cooperative
    for number in range(4):
        tasks.put(number)
    note("culprit", thread="MainThread")
    note("settled")
    print([results.get() for _ in range(4)])  # CULPRIT
    tasks.put(None)
    worker.join()


if __name__ == "__main__":
    main()
