import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import concurrent.futures
import itertools
import multiprocessing as mp
import threading
import time

CTX = mp.get_context("fork")
LINE = CTX.Barrier(2)


def report():
    for number in itertools.count():
        say("progress", number=number)
        time.sleep(3)


def fit():
    say("role", role="process fit")
    say("culprit", thread="MainThread")
    threading.Thread(target=report, daemon=True).start()
    answer = concurrent.futures.Future()
    say("settled")
    answer.result()  # CULPRIT
    LINE.wait()


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    CTX.Process(target=fit).start()
    LINE.wait()
