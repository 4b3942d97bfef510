"""Workers send metrics to a process in which one thread receives and the main thread reports; the receiver writes each lot to a slow disk."""
import json
import logging
import multiprocessing as mp
import os
import socket
import tempfile
import threading
import time

log = logging.getLogger("metrics")


def note(event, **more):
    truth = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(truth, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(truth)


class Metrics:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.bind(path)
        self.socket.listen()
        self.sums, self.lock = {}, threading.Lock()

    def receive(self):
        self.client, _ = self.socket.accept()
        for number, line in enumerate(self.client.makefile()):
            if number % 50_000 == 49_999:
                time.sleep(9)
            name, value = line.split()
            with self.lock:
                self.sums[name] = self.sums.get(name, 0.0) + float(value)

    def report(self):
        while True:
            with self.lock:
                log.info("%s", sorted(self.sums))
            time.sleep(2)


def collect(path, ready):
    note("role", role="process metrics")
    metrics = Metrics(path)
    threading.Thread(target=metrics.receive, name="receive", daemon=True).start()
    ready.set()
    metrics.report()


def train(path):
    note("role", role="process trainer")
    note("waiter")
    out = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    out.connect(path)
    for step in range(1_000_000):
        value = 0.5
        out.sendall(f"loss {value}\n".encode() * 10)
        if step == 4_999:
            note("settled")


def main():
    logging.basicConfig(level=logging.INFO)
    note("root")
    note("role", role="main")
    note("waiter")
    path = os.path.join(tempfile.mkdtemp(), "metrics")
    ready = mp.Event()
    mp.Process(target=collect, args=(path, ready), daemon=True).start()
    ready.wait()
    trainer = mp.Process(target=train, args=(path,))
    trainer.start()
    trainer.join()


if __name__ == "__main__":
    main()
