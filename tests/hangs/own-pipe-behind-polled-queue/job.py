import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import queue

CTX = mp.get_context("fork")


def produce(rows):
    say("role", role="process produce")
    say("culprit", thread="MainThread")
    rows.put(1)
    mine, theirs = CTX.Pipe()
    mine.send("next")
    say("settled")
    rows.put(mine.recv())  # CULPRIT


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    rows = CTX.Queue()
    CTX.Process(target=produce, args=(rows,)).start()
    taken = 0
    while taken < 2:
        try:
            rows.get(timeout=0.3)
            taken += 1
        except queue.Empty:
            pass
