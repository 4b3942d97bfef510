"""A task of a library that mpmon does not know waits for a task of the same library, which has one worker."""

import json
import os
import sys
import tempfile

def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

LIBRARY = """
import queue
import threading

_todo = queue.SimpleQueue()


class Result:
    def __init__(self):
        self._there = threading.Event()

    def get(self):
        self._there.wait()
        return self.value


def submit(function, *arguments):
    result = Result()
    _todo.put((result, function, arguments))
    return result


def _serve():
    while True:
        result, function, arguments = _todo.get()
        result.value = function(*arguments)
        result._there.set()


def start():
    threading.Thread(target=_serve, daemon=True).start()
"""


def library():
    """A library that nobody has heard of, where libraries are."""
    packages = os.path.join(tempfile.mkdtemp(), "site-packages")
    os.makedirs(os.path.join(packages, "handmade"))
    with open(os.path.join(packages, "handmade", "__init__.py"), "w") as file:
        file.write(LIBRARY)
    sys.path.insert(0, packages)
    return __import__("handmade")


def inner():
    return 1


def outer():
    truth("role", role="main")
    truth("culprit")
    truth("settled")
    return handmade.submit(inner).get()  # CULPRIT


truth("root")
handmade = library()
handmade.start()
print(handmade.submit(outer).get())
