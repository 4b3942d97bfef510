"""A trainer saves its model in a session of its store, every few steps, and when it is told to stop; a thread reads batches ahead."""
import contextlib
import json
import os
import queue
import signal
import threading
import time


def truth(event, **more):
    line = json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)



class Store:
    """Snapshots, one writer at a time."""

    def __init__(self):
        self.lock = threading.Lock()
        self.saved = []

    @contextlib.contextmanager
    def session(self):
        with self.lock:  # CULPRIT
            yield self.saved

    def save(self, step):
        with self.session() as saved:
            if len(saved) == 2:
                os.kill(os.getpid(), signal.SIGUSR1)
            saved.append(step)
            time.sleep(0.2)


def read_ahead(batches):
    for number in range(1000000):
        batches.put(number)


def evaluate(store, steps):
    while True:
        step = steps.get()
        with store.session() as saved:
            print("evaluated", step, len(saved), flush=True)


def main():
    truth("root")
    truth("role", role="main")
    store, batches, steps = Store(), queue.Queue(2), queue.Queue()

    def preempted(*_):
        truth("culprit", thread="MainThread")
        truth("settled")
        store.save("preempted")

    signal.signal(signal.SIGUSR1, preempted)
    for work in ((read_ahead, batches), (evaluate, store, steps)):
        threading.Thread(target=work[0], args=work[1:], daemon=True).start()
    for step in range(100):
        print(step, batches.get(), flush=True)
        steps.put(step)
        store.save(step)


if __name__ == "__main__":
    main()
