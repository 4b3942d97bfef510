"""Main asks a function that it was given, named ready as that of a pool result, until a thread has made its steps of four seconds; a writer waits for that."""

import json
import multiprocessing
import os
import threading
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def write(orders):
    say("role", role="process write")
    print(orders.get(), flush=True)


class Press:
    def __init__(self):
        self.pages = []

    def run(self):
        while len(self.pages) < 80:
            self.step()

    def step(self):
        time.sleep(4)
        self.pages.append(len(self.pages))
        say("progress")


class Waiter:
    def __init__(self, ready):
        self.ready, self.looks = ready, 0

    def wait(self):
        while not self.ready():
            self.looks += 1
            time.sleep(0.5)


def main():
    say("root")
    say("role", role="main")
    context = multiprocessing.get_context("fork")
    orders, press = context.Queue(), Press()
    context.Process(target=write, args=(orders,), daemon=True).start()
    threading.Thread(target=press.run, daemon=True).start()
    say("settled")
    Waiter(lambda: len(press.pages) >= 80).wait()
    orders.put(len(press.pages))


if __name__ == "__main__":
    main()
