import json
import os
import socket
import threading

LOCK, ASKS = threading.Lock(), threading.Event()


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def poller(connection):
    with LOCK:
        say("culprit", thread="poller")
        say("settled")
        ASKS.set()


        connection.recv(100)  # CULPRIT


def main():
    ours, theirs = socket.socketpair()
    threading.Thread(target=poller, args=(ours,), name="poller").start(), ASKS.wait()
    with LOCK:
        print(theirs)


say("root"), say("role", role="main"), main()
