import json
import multiprocessing as mp
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import wait


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


CLIENTS = 3


class Round:
    """Lets the calls of a round return together."""

    def __init__(self):
        self.changed, self.calls, self.number = threading.Condition(), 0, 0

    def call(self):
        with self.changed:
            number = self.number
            self.calls += 1
            if self.calls == CLIENTS:
                self.calls, self.number = 0, number + 1
                self.changed.notify_all()
            if self.calls == 2:
                say("culprit")
                say("settled")
            while self.number == number:
                self.changed.wait()  # CULPRIT


def answer(connection, meets):
    meets.call()
    connection.send("go on")


def serve(connections):
    say("role", role="process server")
    pool, meets = ThreadPoolExecutor(2, "handler"), Round()
    while True:
        for connection in wait(connections):
            connection.recv()
            pool.submit(answer, connection, meets)


def train(number, connection):
    say("role", role=f"process trainer-{number}")
    while True:
        time.sleep(0.2 * (number + 1))
        connection.send(number)
        connection.recv()


def main():
    say("root")
    say("role", role="main")
    context = mp.get_context("spawn")
    pairs = [context.Pipe() for _ in range(CLIENTS)]
    server = context.Process(target=serve, args=([near for near, _ in pairs],), daemon=True)
    trainers = [context.Process(target=train, args=(number, far)) for number, (_, far) in enumerate(pairs)]
    for process in (server, *trainers):
        process.start()
    for trainer in trainers:
        trainer.join()


if __name__ == "__main__":
    main()
