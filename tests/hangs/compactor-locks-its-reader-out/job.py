import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import fcntl
import multiprocessing as mp
import threading
import time


class Archive:
    """Whoever has its file locked may change it."""

    def __enter__(self):
        self.file = open("archive.lock", "w")
        fcntl.flock(self.file, fcntl.LOCK_EX)  # CULPRIT

    def __exit__(self, *_):
        self.file.close()


def index(reads):
    say("role", role="process index")
    say("culprit", thread="MainThread")
    with os.fdopen(reads, "rb") as lines:
        lines.readline()
        with Archive():
            for line in lines:
                print(len(line))


def compact(writes):
    say("culprit", thread="compactor")
    with Archive():
        for number in range(10_000):
            os.write(writes, b"entry %d\n" % number * 20)  # CULPRIT


def main():
    say("root")
    say("role", role="main")
    reads, writes = os.pipe()
    indexer = mp.Process(target=index, args=(reads,), name="index")
    indexer.start()
    os.close(reads)
    compactor = threading.Thread(target=compact, args=(writes,), name="compactor")
    compactor.start()
    time.sleep(1)
    say("settled")
    compactor.join()


if __name__ == "__main__":
    main()
