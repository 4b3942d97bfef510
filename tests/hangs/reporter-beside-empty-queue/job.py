import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import threading

CTX = mp.get_context("fork")
STOP = threading.Event()


def report():
    while not STOP.wait(2):
        say("progress")


def work(done):
    say("role", role="process work")
    say("culprit", thread="MainThread")
    threading.Thread(target=report, daemon=True, name="report").start()
    orders = CTX.Queue()
    say("settled")
    done.put(orders.get())  # CULPRIT


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    results = CTX.Queue()
    CTX.Process(target=work, args=(results,)).start()
    results.get()
