import json
import os
import sys
import tempfile


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


LIBRARY = """
import queue
import threading
import time

_todo, _done = queue.SimpleQueue(), {}


class Message:
    def get_result(self):
        attempts = 0
        while self not in _done:
            attempts += 1
            time.sleep(min(0.2 * 2**attempts, 2 + attempts % 3 / 10))
        return _done[self]


def send(function, *arguments):
    message = Message()
    _todo.put((message, function, arguments))
    return message


def _work():
    while True:
        message, function, arguments = _todo.get()
        _done[message] = function(*arguments)


def start(threads):
    for _ in range(threads):
        threading.Thread(target=_work, daemon=True).start()
"""


def library():
    """A library that nobody has heard of, where libraries are."""
    packages = os.path.join(tempfile.mkdtemp(), "site-packages")
    os.makedirs(os.path.join(packages, "parcels"))
    with open(os.path.join(packages, "parcels", "__init__.py"), "w") as file:
        file.write(LIBRARY)
    sys.path.insert(0, packages)
    return __import__("parcels")


def chapter(number):
    return "text " * number


def report(number):
    if number:
        say("culprit")
        say("settled")
    return [message.get_result() for message in [parcels.send(chapter, part) for part in range(3)]]  # CULPRIT


say("root")
say("role", role="main")
parcels = library()
parcels.start(2)
print(parcels.send(report, 0).get_result())
for message in [parcels.send(report, number) for number in (1, 2)]:
    print(message.get_result())
