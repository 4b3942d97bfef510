import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import concurrent.futures
import multiprocessing as mp
import threading
import time

CTX = mp.get_context("fork")


def beat():
    while True:
        with open("beat", "w") as file:
            file.write(str(time.time()))
        time.sleep(0.3)


def decode(ready):
    say("culprit", thread="decode")
    changed = threading.Condition()
    say("settled")
    with changed:
        changed.wait()  # CULPRIT
    ready.set()


def score(number):
    say("role", role="pool worker 0")
    ready = threading.Event()
    threading.Thread(target=beat, daemon=True).start()
    threading.Thread(target=decode, args=(ready,), name="decode").start()
    turns = 0
    while not ready.wait(0.5):
        turns += 1
    return number + turns


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=CTX) as pool:
        task = pool.submit(score, 1)
        while not task.done():
            time.sleep(0.5)
