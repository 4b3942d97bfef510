"""Tasks of joblib compute for long; the program polls for results."""

import json
import os
import time

import joblib

def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def work(number):
    until = time.monotonic() + 60
    total = 0
    while time.monotonic() < until:
        total += sum(range(1000))
    return total


def main():
    truth("root")
    truth("settled")
    print(joblib.Parallel(n_jobs=2)(joblib.delayed(work)(number) for number in range(4)))


main()
