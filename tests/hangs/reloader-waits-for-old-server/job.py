import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import queue
import signal
import threading
import time
from pathlib import Path

items, stops = queue.Queue(), threading.Event()


def consume():
    while items.get() is not None:  # CULPRIT
        Path("consumed").touch()


def serve():
    say("role", role="process serve")
    say("culprit", thread="MainThread")
    say("culprit", thread="Thread-1 (consume)")
    signal.signal(signal.SIGTERM, lambda *_: stops.set())
    worker = threading.Thread(target=consume)
    worker.start()
    items.put("first")
    while not stops.wait(0.2):
        pass
    say("settled")
    worker.join()  # CULPRIT


def reload():
    say("role", role="process reload")
    server = mp.Process(target=serve)
    server.start()
    time.sleep(1)
    server.terminate()
    server.join()
    Path("version").write_text("2")


def main():
    say("root")
    say("role", role="main")
    mp.Process(target=reload).start()
    seen = 0
    while not Path("version").exists() or Path("version").read_text() != "2":
        seen += 1
        time.sleep(1)


if __name__ == "__main__":
    main()
