import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import pathlib
import signal
import time

FOLDER = pathlib.Path("catalog.lock")


class Claimed:
    """Whoever makes the folder has the catalog."""

    def __init__(self, folder):
        self.folder = folder

    def __enter__(self):
        while True:
            try:
                self.folder.mkdir()
            except FileExistsError:
                time.sleep(0.2)
            else:
                return self

    def __exit__(self, *_):
        self.folder.rmdir()


def load(name, last):
    say("role", role=f"process {name}")
    with Claimed(FOLDER):
        if last:
            say("culprit", thread="MainThread", dead=True)
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.5)


def publish():
    say("role", role="process publish")
    with Claimed(FOLDER):
        print("published")


def main():
    say("root")
    say("role", role="main")
    loader = mp.Process(target=load, args=("load-a", True), name="load-a")
    loader.start()
    while loader.exitcode is None and not FOLDER.exists():
        time.sleep(0.05)
    time.sleep(0.5)
    others = [mp.Process(target=load, args=("load-b", False), name="load-b"), mp.Process(target=publish, name="publish")]
    for process in others:
        process.start()
    say("settled")
    for process in others:
        process.join()


if __name__ == "__main__":
    main()
