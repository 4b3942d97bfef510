import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import fcntl
import os
import threading
import time

LOCKED, MOVED = threading.Event(), threading.Condition()


def publish(path):
    say("culprit", thread="publish")
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        LOCKED.set()
        say("settled")
        with MOVED:
            MOVED.wait()  # CULPRIT


def enter(path):
    with open(path, "w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                time.sleep(0.1)


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    path = os.path.abspath("registry.lock")
    threading.Thread(target=publish, args=(path,), name="publish").start()
    LOCKED.wait()
    enter(path)
