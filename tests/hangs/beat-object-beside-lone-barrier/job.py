import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import threading
import time

CTX = mp.get_context("fork")
LOADED = CTX.Semaphore(0)


class Beat:
    def __init__(self, name):
        self.name, self.running, self.count = name, True, 0

    def run(self):
        while self.running:
            self.tick()
            time.sleep(1)

    def tick(self):
        self.count += 1
        with open(self.name, "w") as file:
            file.write(str(self.count))


class Loader:
    def tick(self):
        transform(self)


def load():
    say("role", role="process load")
    say("culprit", thread="MainThread")
    threading.Thread(target=Beat("load.beat").run, daemon=True).start()
    line = threading.Barrier(2)
    say("settled")
    line.wait()  # CULPRIT
    LOADED.release()


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    threading.Thread(target=Beat("main.beat").run, daemon=True).start()
    CTX.Process(target=load).start()
    LOADED.acquire()
