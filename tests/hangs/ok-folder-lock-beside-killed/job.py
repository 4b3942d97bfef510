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


def probe():
    say("role", role="process probe")
    os.kill(os.getpid(), signal.SIGKILL)


def load():
    say("role", role="process load")
    total = 0
    with Claimed(FOLDER):
        say("settled")
        for number in range(10**12):
            total += number % 7
            if number % 5_000_000 == 0:
                say("progress")


def publish():
    say("role", role="process publish")
    time.sleep(1)
    with Claimed(FOLDER):
        print("published")


def main():
    say("root")
    say("role", role="main")
    processes = [mp.Process(target=target, name=target.__name__) for target in (probe, load, publish)]
    for process in processes:
        process.start()
    processes[2].join()


if __name__ == "__main__":
    main()
