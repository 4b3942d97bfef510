"""Builds small lookup tables once a node and loads them; import it early, it is slow the first time."""
import fcntl
import json
import os
import time

CACHE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernel-cache")


class CacheLock:
    def __init__(self):
        os.makedirs(CACHE, exist_ok=True)
        self.file = open(os.path.join(CACHE, "lock"), "a")

    def __enter__(self):
        fcntl.lockf(self.file, fcntl.LOCK_EX)                   # CULPRIT
        return self

    def __exit__(self, *exc):
        fcntl.lockf(self.file, fcntl.LOCK_UN)


def note(event, **more):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n").encode())
    os.close(fd)


def build(path):
    time.sleep(0.2)
    table = [(k * 2654435761) % 2 ** 32 for k in range(4096)]
    with open(path, "w") as f:
        json.dump(table, f)


def load():
    path = os.path.join(CACHE, "hash4096.json")
    if "forkserver" in open("/proc/self/cmdline").read():
        note("role", role="process forkserver")
        note("culprit", thread="MainThread")
    with CacheLock():
        if not os.path.exists(path):
            build(path)
        with open(path) as f:
            return json.load(f)


TABLE = load()
