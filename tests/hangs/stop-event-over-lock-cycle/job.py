import json
import logging
import multiprocessing
import os
import threading
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def move(name, first, second):
    say("role", role=f"process {name}")
    say("culprit", all=True)
    with first:
        time.sleep(0.5)
        with second:  # CULPRIT
            print(name)


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    fork = multiprocessing.get_context("fork")
    left, right, stop = fork.Lock(), fork.Lock(), threading.Event()
    movers = [
        fork.Process(target=move, args=("to-left", left, right), name="to-left"),
        fork.Process(target=move, args=("to-right", right, left), name="to-right"),
    ]
    for mover in movers:
        mover.start()
    say("settled")
    while not stop.wait(1):
        alive = sum(mover.is_alive() for mover in movers)
        logging.warning("%d movers at %s", alive, time.time())
        if not alive:
            stop.set()
