import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import concurrent.futures
import fcntl
import multiprocessing as mp
import queue
import threading

CTX = mp.get_context("fork")
JOBS = queue.Queue()


def work():
    while True:
        JOBS.get()()


def publish(path):
    say("role", role="pool worker 0")
    say("culprit", thread="MainThread")
    threading.Thread(target=work, daemon=True).start()
    with open(path, "w") as first, open(path, "w") as second:
        fcntl.flock(first, fcntl.LOCK_EX)
        say("settled")
        fcntl.flock(second, fcntl.LOCK_EX)  # CULPRIT


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=CTX) as pool:
        for task in concurrent.futures.as_completed([pool.submit(publish, "registry.lock")]):
            task.result()
