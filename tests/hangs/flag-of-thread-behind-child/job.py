import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import os
import threading
import time

CTX = mp.get_context("fork")
DONE = []


def part(out):
    say("role", role="process part")
    say("culprit", thread="MainThread")
    reader, _ = os.pipe()
    say("settled")
    out.send(os.read(reader, 10))  # CULPRIT


def collect():
    receiver, sender = CTX.Pipe(False)
    CTX.Process(target=part, args=(sender,), daemon=True).start()
    DONE.append(receiver.recv())


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    threading.Thread(target=collect).start()
    while not DONE:
        time.sleep(0.3)
