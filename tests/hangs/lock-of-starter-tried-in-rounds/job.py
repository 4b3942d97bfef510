"""A child tries to lock a file every half second; main has locked it and waits until the child is ready."""

import fcntl
import json
import multiprocessing
import os
import tempfile
import time


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

def locked(file, pause=0.5):
    tries = 0
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tries += 1
            if tries % 60 == 0:
                print("the cache is still locked", flush=True)
            time.sleep(pause)  # CULPRIT


def warm(path, ready):
    say("role", role="process warm")
    say("culprit")
    say("settled")
    with open(path, "a") as file:
        locked(file)
    ready.send("warm")


def main():
    say("root")
    say("role", role="main")
    ours, theirs = multiprocessing.Pipe(duplex=False)
    folder = tempfile.mkdtemp()
    with open(os.path.join(folder, "lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        multiprocessing.get_context("spawn").Process(target=warm, args=(file.name, theirs)).start()
        theirs.close()
        say("culprit")
        print(ours.recv())  # CULPRIT


if __name__ == "__main__":
    main()
