import json
import os
import sys
import tempfile
import threading


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


LIBRARY = """
import heapq
import queue
import threading
import time

_todo, _later = queue.Queue(), []


def send(function, pause):
    _todo.put((function, pause))


def _work():
    while True:
        try:
            function, pause = _todo.get(timeout=0.5)
        except queue.Empty:
            continue
        try:
            function()
        except ConnectionError:
            heapq.heappush(_later, (time.monotonic() + pause, id(function), function, pause))


def _look():
    while True:
        time.sleep(0.5)
        while _later and _later[0][0] <= time.monotonic():
            send(*heapq.heappop(_later)[2:])


def start():
    for target in (_work, _work, _look):
        threading.Thread(target=target, daemon=True).start()
"""


def library():
    """A library that nobody has heard of, where libraries are."""
    packages = os.path.join(tempfile.mkdtemp(), "site-packages")
    os.makedirs(os.path.join(packages, "retries"))
    with open(os.path.join(packages, "retries", "__init__.py"), "w") as file:
        file.write(LIBRARY)
    sys.path.insert(0, packages)
    return __import__("retries")


class Upload:
    def __init__(self):
        self.attempts, self.done = 0, threading.Event()

    def __call__(self):
        self.attempts += 1
        if self.attempts == 3:
            say("settled")
        threading.Event().wait(2)
        if self.attempts < 5:
            raise ConnectionError("503")
        self.done.set()


say("root")
say("role", role="main")
retries, upload = library(), Upload()
retries.start()
retries.send(upload, 10)
upload.done.wait()
