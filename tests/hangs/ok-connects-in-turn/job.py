import json
import multiprocessing as mp
import os
import socket
import threading
import time


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


CTX = mp.get_context("fork")


PATH = "scale.sock"


def report(k):
    say("role", role=f"process report-{k}")
    with socket.socket(socket.AF_UNIX) as scale:
        scale.connect(PATH)
        scale.sendall(b"weigh\n")
        print(k, scale.recv(100))


def main():
    say("root")
    say("role", role="main")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(PATH)
        listening.listen(1)
        for k in range(6):
            CTX.Process(target=report, args=(k,)).start()
        say("settled")
        for _ in range(6):
            asks, _ = listening.accept()
            with asks:
                asks.recv(100)
                total = 0
                until = time.monotonic() + 9  # the scale is slow, and its driver computes
                while time.monotonic() < until:
                    total += sum(range(1000))
                asks.sendall(b"%d\n" % total)


main()
