"""A worker of a Pool of multiprocess, a copy of multiprocessing, is killed at its task."""

import json
import os
import signal

import multiprocess

def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def work(number):
    if number == 9:
        truth("culprit", dead=True)
        truth("settled")
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def main():
    truth("root"), truth("role", role="main"), truth("culprit", thread="MainThread")
    with multiprocess.Pool(2) as pool:
        print(sum(pool.map(work, range(40), chunksize=1)))  # CULPRIT


main()
