import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import time
from pathlib import Path


class FolderLock:
    def __init__(self, path):
        self.path = Path(path)

    def __enter__(self):
        while True:
            try:
                self.path.mkdir()
                return self
            except FileExistsError:
                time.sleep(0.1)

    def __exit__(self, *_):
        self.path.rmdir()


def work(number):
    say("role", role=f"process work {number}")
    for turn in range(100):
        with FolderLock("index.lock"):
            time.sleep(1.5)
        if number == 0 and turn == 0:
            say("settled")
        time.sleep(0.2)


def main():
    say("root")
    say("role", role="main")
    processes = [mp.Process(target=work, args=(number,)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


if __name__ == "__main__":
    main()
