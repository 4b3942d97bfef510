"""A task of joblib opens a pipe that nobody writes; the program polls for results."""

import json
import os
import tempfile

import joblib

def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def load(number, place):
    if number == 5:
        truth("role", role="pool worker")
        truth("culprit")
        truth("settled")
        return open(place).read()  # CULPRIT
    return number


def main():
    truth("root")
    place = os.path.join(tempfile.mkdtemp(), "fifo")
    os.mkfifo(place)
    print(joblib.Parallel(n_jobs=2)(joblib.delayed(load)(number, place) for number in range(12)))


main()
