"""A test in a worker of pytest-xdist waits for an event that nobody sets."""

import json
import os
import sys
import threading

def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def test_adds():
    assert 1 + 1 == 2


def test_is_told():
    truth("role", role="subprocess")
    truth("culprit")
    truth("settled")
    threading.Event().wait()  # CULPRIT


def test_multiplies():
    assert 2 * 2 == 4


if __name__ == "__main__":
    truth("root")
    os.execv(sys.executable, [sys.executable, "-m", "pytest", "-n2", "-p", "no:cacheprovider", __file__])
